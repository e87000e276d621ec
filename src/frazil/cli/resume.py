"""`frazil topics resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from frazil.cli.context import GivenContext
from frazil.cli.naming import existing_topic, reading
from frazil.cli.output import Format, print_json
from frazil.errors import ConfigError

if TYPE_CHECKING:
    from frazil.pipeline.decisions import Decision, Problem


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
    accept: Annotated[bool, Parameter(negative=(), help="Go on with the table as it is.")] = False,
    recreate: Annotated[
        bool, Parameter(negative=(), help="Make a table anew; one that is there gets another name.")
    ] = False,
    table: Annotated[
        str | None, Parameter(help="Decide about this table; by default about all that need the decision.")
    ] = None,
    output: Annotated[Format, Parameter(help="How to print it.")] = "human",
    context: GivenContext,
) -> None:
    """Decide what happens to a topic whose pipeline stopped; without a decision, say why it did."""
    from frazil.lake.catalog import Lake
    from frazil.pipeline.decisions import Topic

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
    config = context.load().config
    with reading(config) as log:
        existing_topic(log, topic)
        about = Topic(config, Lake(config), log.store, topic)
        done = about.decide(decisions[0], table) if decisions else []
        problems = about.problems()
    if output == "json":
        print_json({"topic": topic, "done": done, "problems": [_problem(each) for each in problems]})
        return
    for text in done:
        print(text)
    for problem in problems:
        print(f"{topic} needs a decision about {problem.table.name}: {problem.error}")
    if not problems:
        print(
            f"{topic} can go on: nothing in its tables and its log is in the way. `frazil status` tells whether a "
            "running pipeline met anything else."
        )


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "table": problem.table.name,
        "role": problem.table.role,
        "kind": type(problem.error).__name__,
        "reason": str(problem.error),
        "decisions": problem.decisions,
    }
