"""`frazil dlq` lists and replays dead letters, the records that could not become rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.log_access import open_log, require_topic
from frazil.cli.terminal.output import Format, count, print_json, print_table
from frazil.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from frazil.config.model import Config
    from frazil.pipeline.deadletters.replay import ReplayResult
    from frazil.store import ObjectStore

app = App(name="dlq")

Output = Annotated[Format, Parameter(help="How to print it.")]

_MAX_LENGTH = 100
"""A longer reason is cut off in the table; JSON has all of it."""


@app.command(name="list")
def list_(
    topic: str,
    /,
    *,
    limit: Annotated[int, Parameter(help="How many of the newest.", validator=Number(gte=1))] = 20,
    partition: Annotated[int | None, Parameter(help="Only those of this partition.")] = None,
    show: Annotated[
        int | None, Parameter(help="Show the letter at this offset in full; if several have it, of --partition.")
    ] = None,
    output: Output = "human",
    context: GivenContext,
) -> None:
    """Say which records of a topic could not become rows, the newest first, and why."""
    from frazil.pipeline.deadletters.letters import newest_letters

    config = context.load().config
    with open_log(config) as log:
        table = _letters(config, log.store, require_topic(log, topic))
    if show is not None:
        _show(topic, table, partition, show, output)
        return
    letters = newest_letters(table, limit, partition) if table is not None else []
    if output == "json":
        print_json([_as_data(letter) for letter in letters])
    elif letters:
        columns = ("partition", "offset", "Kafka's offset", "failed", "replayed", "reason")
        print_table(columns, [_as_row(letter) for letter in letters])
    else:
        print(f"There are no dead letters of topic {topic!r}.")


@app.command
def replay(
    topic: str,
    /,
    *,
    partition: Annotated[int | None, Parameter(help="Only letters of this partition.")] = None,
    offset: Annotated[int | None, Parameter(help="Only the letter at this offset.")] = None,
    all_: Annotated[bool, Parameter(name="--all", negative=(), help="All letters of the topic.")] = False,
    output: Output = "human",
    context: GivenContext,
) -> None:
    """Try dead letters again: those that can be read now become rows of the base table, under their old offsets."""
    from frazil.lake.catalog.lake import Lake
    from frazil.pipeline.deadletters.letters import letter_filter
    from frazil.pipeline.deadletters.replay import Replay

    if all_ == (partition is not None or offset is not None):
        raise ConfigError("Which letters? --all, or --partition N, or --partition N --offset N.")
    if offset is not None and partition is None:
        raise ConfigError("--offset needs --partition: each partition counts its own.")
    config = context.load().config
    with open_log(config) as log:
        require_topic(log, topic)
        chosen = None if partition is None else letter_filter(partition, offset)
        if chosen is not None and not _partitions(_letters(config, log.store, topic), chosen):
            what = "letters" if offset is None else f"letter at offset {offset}"
            raise ConfigError(f"{topic}/{partition} has no dead {what}.")
        done = Replay(config, Lake(config), log.store, topic).run(chosen)
    if output == "json":
        print_json(_outcome(topic, done))
        return
    print(f"{count(done.rows, 'letter')} became {'a row' if done.rows == 1 else 'rows'} of the base table.")
    if done.found:
        print(f"{count(done.found, 'row')} {'was' if done.found == 1 else 'were'} there already.")
    if done.waiting:
        print(
            f"{count(len(done.waiting), 'letter')} can be replayed when the pipeline has moved what is around them."
        )
    for place, reason in sorted(done.stuck.items()):
        print(f"{topic}/{place.partition} offset {place.offset} stays: {reason}")


def _letters(config: Config, store: ObjectStore, topic: str) -> Table | None:
    from frazil.lake.catalog.lake import Lake
    from frazil.lake.tables.table_check import TableStatus, check_table
    from frazil.lake.tables.tables import dead_letter_identifier

    check = check_table(Lake(config), store, topic, dead_letter_identifier(config, topic), "dead-letter")
    if check.status is TableStatus.NEVER_CREATED:
        return None
    if check.status is not TableStatus.OK:
        raise check.error()
    return check.table


def _partitions(table: Table | None, where: BooleanExpression) -> list[int]:
    """Returns the partitions that have such letters."""
    from frazil.log.schema.columns import PARTITION
    from frazil.pipeline.deadletters.letters import read_letters

    if table is None:
        return []
    batches = read_letters(table, [PARTITION], where)
    return sorted({partition for batch in batches for partition in batch.column(PARTITION).unique().to_pylist()})


def _show(topic: str, table: Table | None, partition: int | None, offset: int, output: Format) -> None:
    from pyiceberg.expressions.parser import parse

    from frazil.log.schema.columns import OFFSET
    from frazil.pipeline.deadletters.letters import find_letter

    if partition is None:
        there = _partitions(table, parse(f"{OFFSET} == {offset}"))
        if len(there) > 1:
            raise ConfigError(
                f"--show: partitions {', '.join(map(str, there))} have a dead letter at offset {offset}; say which "
                f"with --partition."
            )
        partition = there[0] if there else None
    letter = None if table is None or partition is None else find_letter(table, partition, offset)
    if letter is None:
        where = topic if partition is None else f"{topic}/{partition}"
        raise ConfigError(f"--show: {where} has no dead letter at offset {offset}.")
    if output == "json":
        print_json(_as_data(letter))
        return
    for name, value in _as_data(letter).items():
        if value is not None:
            print(f"{name.replace('_', ' ').strip()}: {value}")


def _as_row(letter: dict[str, Any]) -> tuple[object, ...]:
    data = _as_data(letter)
    reason = data["error"]
    return (
        data["partition"],
        data["offset"],
        data["kafka_offset"],
        data["failed_at"],
        data["replayed_at"],
        reason if len(reason) <= _MAX_LENGTH else f"{reason[: _MAX_LENGTH - 1]}…",
    )


def _as_data(letter: dict[str, Any]) -> dict[str, Any]:
    """Returns the columns of a letter by names for people. Bytes are shown as text if they are text, else in hex."""
    named = {name.removeprefix("_log").removeprefix("_"): value for name, value in letter.items()}
    return {name: _shown(value) for name, value in named.items()}


def _shown(value: object) -> object:
    from datetime import datetime

    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if not isinstance(value, bytes):
        return value
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return (
        text if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable() else f"0x{value.hex()}"
    )


def _outcome(topic: str, done: ReplayResult) -> dict[str, Any]:
    return {
        "topic": topic,
        "rows": done.rows,
        "found": done.found,
        "waiting": [place._asdict() for place in done.waiting],
        "stuck": [{**place._asdict(), "reason": reason} for place, reason in sorted(done.stuck.items())],
    }
