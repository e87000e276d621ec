"""`frazil topics resume` says why a topic stopped, and carries out a decision."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.log_access import open_log, require_topic
from frazil.cli.terminal.output import Format, print_json
from frazil.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from frazil.doors.kafka.decisions import Gap, KafkaPositions
    from frazil.pipeline.decisions.topic_decisions import Decision, TableProblem, TopicDecisions


def resume(
    topic: str,
    /,
    *,
    accept_schema: Annotated[
        bool, Parameter(negative=(), help="Put columns aside that do not fit the topic.")
    ] = False,
    dead_letter: Annotated[
        bool, Parameter(negative=(), help="Send rows that do not fit to the dead letters.")
    ] = False,
    replay: Annotated[bool, Parameter(negative=(), help="Move again what a rollback took away.")] = False,
    accept: Annotated[
        bool, Parameter(negative=(), help="Go on with the table as it is, or with what Kafka still has.")
    ] = False,
    recreate: Annotated[
        bool, Parameter(negative=(), help="Make a table anew; one that is there gets another name.")
    ] = False,
    table: Annotated[
        str | None, Parameter(help="Decide about this table; by default about all that need the decision.")
    ] = None,
    output: Annotated[Format, Parameter(help="How to print it.")] = "human",
    context: GivenContext,
) -> None:
    """Decide what happens to a topic that stopped; without a decision, say why it did."""
    from frazil.doors.kafka.decisions import KafkaPositions
    from frazil.lake.catalog.lake import Lake
    from frazil.pipeline.decisions.topic_decisions import TopicDecisions

    options: dict[Decision, bool] = {
        "accept-schema": accept_schema,
        "dead-letter": dead_letter,
        "replay": replay,
        "accept": accept,
        "recreate": recreate,
    }
    decisions = [decision for decision, wanted in options.items() if wanted]
    if len(decisions) > 1:
        raise ConfigError(f"One decision at a time, not {' and '.join(f'--{each}' for each in decisions)}.")
    if table is not None and not decisions:
        raise ConfigError("--table needs a decision: what is to happen to it?")
    # The Kafka client logs what is printed here in order.
    logging.getLogger("frazil").addHandler(logging.NullHandler())
    config = context.load().config
    with open_log(config) as log:
        require_topic(log, topic)
        tables = TopicDecisions(config, Lake(config), log.store, topic)
        positions = KafkaPositions.of(config, log.store, topic)
        done: list[str] = []
        if positions and decisions == ["accept"] and table is None:
            done += positions.accept()
        if decisions and not (done and not _helps(tables, decisions[0])):
            done += tables.decide(decisions[0], table)
        problems = [_problem(each) for each in tables.problems()]
        gaps, unknown = _gaps(positions)
    problems += [_gap(each) for each in gaps]
    if output == "json":
        print_json({"topic": topic, "done": done, "problems": problems, **({"unknown": unknown} if unknown else {})})
        return
    for text in done:
        print(text)
    for problem in problems:
        about = problem.get("table") or f"Kafka's partition {problem['kafka_partition']}"
        needs = "needs a decision about" if problem["decisions"] else "cannot go on with"
        print(f"{topic} {needs} {about}: {problem['reason']}")
    if unknown:
        print(f"Whether Kafka has all that comes next is not known: {unknown}")
    elif not problems:
        print(
            f"{topic} can go on: nothing in its tables and its log is in the way. `frazil status` tells whether a "
            "running pipeline met anything else."
        )


def _helps(tables: TopicDecisions, decision: Decision) -> bool:
    return any(decision in problem.decisions for problem in tables.problems())


def _gaps(positions: KafkaPositions | None) -> tuple[list[Gap], str]:
    """Returns what Kafka no longer has and, if that cannot be found out, why."""
    try:
        return (positions.gaps() if positions else []), ""
    except KafkaError as error:
        return [], str(error)


def _problem(problem: TableProblem) -> dict[str, Any]:
    return {
        "table": problem.table.name,
        "role": problem.table.role,
        "kind": type(problem.error).__name__,
        "reason": str(problem.error),
        "decisions": problem.decisions,
    }


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "kafka_partition": gap.partition,
        "kind": type(gap.error).__name__,
        "reason": str(gap.error),
        "decisions": ("accept",),
    }
