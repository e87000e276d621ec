"""`frazil topics` groups the commands about topics; `list` and `describe` are here."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.log_access import open_log, require_topic
from frazil.cli.terminal.output import Format, print_json, print_table
from frazil.cli.topics.manage import create, delete, stats
from frazil.cli.topics.produce import produce
from frazil.cli.topics.resume import resume
from frazil.cli.topics.tables import describe_tables, print_tables
from frazil.cli.topics.tail import tail

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.log.check.inspection import PartitionInfo
    from frazil.log.log import Log

app = App(name="topics")
for _command in (produce, tail, stats, create, delete, resume):
    app.command(_command)

Output = Annotated[Format, Parameter(help="How to print it.")]


@app.command(name="list")
def list_(*, output: Output = "human", context: GivenContext) -> None:
    """Say what topics there are and how much of each is in the log."""
    with open_log(context.load().config) as log:
        where = log.store.url
        topics = [_summary(log, topic) for topic in log.topics()]
    if output == "json":
        print_json(topics)
        return
    if not topics:
        print(f"There are no topics in {where} yet.")
        return
    columns = ("topic", "partitions", "first", "next", "sealed", "rows", "bytes", "schema")
    print_table(
        columns,
        [
            (
                topic["topic"],
                topic["partitions"],
                *(_range(topic[key]) for key in ("first_offsets", "next_offsets", "sealed_ends")),
                f"{topic['rows']:,}",
                f"{topic['bytes']:,}",
                f"v{topic['schema_version']}",
            )
            for topic in topics
        ],
    )


@app.command
def describe(topic: str, /, *, output: Output = "human", context: GivenContext) -> None:
    """Show the columns, settings and partitions of a topic."""
    config = context.load().config
    with open_log(config) as log:
        require_topic(log, topic)
        partitions = _partitions(log, topic)
        history = _history(log, topic)
        settings = _settings(log, topic)
        sealed = {each.partition: each.sealed_end or 0 for each in partitions}
        tables = describe_tables(config, log.store, topic, sealed)
    if output == "json":
        print_json(
            {
                "topic": topic,
                "settings": settings,
                "schemas": [{"version": version, "columns": _columns(schema)} for version, schema in history],
                "partitions": [_partition(each) for each in partitions],
                "tables": tables,
            }
        )
        return
    print(f"{topic}: {', '.join(f'{key} {value}' for key, value in settings.items())}\n")
    if history:
        version, schema = history[-1]
        print(f"schema version {version}")
        print_table(("column", "type"), _columns(schema).items())
        for (_, older), (number, newer) in pairwise(history):
            print(f"version {number}: {', '.join(_changes(older, newer))}")
        print()
    print_table(
        ("partition", "owner", "epoch", "first", "sealed", "next", "segments", "segment bytes", "WAL bytes"),
        [
            (
                each.partition,
                each.owner,
                each.epoch,
                each.first_offset,
                each.sealed_end,
                each.next_offset,
                len(each.segments),
                f"{each.segment_bytes:,}",
                f"{each.wal_bytes:,}",
            )
            for each in partitions
        ],
    )
    print_tables(tables)


def _partitions(log: Log, topic: str) -> list[PartitionInfo]:
    from frazil.log.check.inspection import show_partition

    return [show_partition(log, topic, partition) for partition in log.partitions(topic)]


def _summary(log: Log, topic: str) -> dict[str, Any]:
    partitions = _partitions(log, topic)
    latest = log.schemas(topic).latest()
    return {
        "topic": topic,
        "partitions": len(partitions),
        "first_offsets": [each.first_offset for each in partitions],
        "next_offsets": [each.next_offset for each in partitions],
        "sealed_ends": [each.sealed_end for each in partitions],
        "rows": sum(each.rows or 0 for each in partitions),
        "bytes": sum(each.segment_bytes + each.wal_bytes for each in partitions),
        "schema_version": latest.version if latest else 0,
    }


def _range(offsets: list[int | None]) -> str:
    """Returns the offsets of all partitions as the text of one cell."""
    known = sorted({offset for offset in offsets if offset is not None})
    if not known:
        return "?"
    return str(known[0]) if len(known) == 1 else f"{known[0]}…{known[-1]}"


def _history(log: Log, topic: str) -> list[tuple[int, pa.Schema]]:
    schemas = log.schemas(topic)
    latest = schemas.latest()
    return [(version, schemas.get(version)) for version in range(1, latest.version + 1)] if latest else []


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in schema}


def _changes(older: pa.Schema, newer: pa.Schema) -> list[str]:
    before, after = _columns(older), _columns(newer)
    added = [f"added {name} ({kind})" for name, kind in after.items() if name not in before]
    return added + [
        f"{name} from {before[name]} to {kind}"
        for name, kind in after.items()
        if name in before and before[name] != kind
    ]


def _settings(log: Log, topic: str) -> dict[str, Any]:
    from frazil.doors.kafka.settings import writer_options
    from frazil.formats.kafka import is_kafka
    from frazil.log.writer.options import WriterOptions

    latest = log.schemas(topic).latest()
    if latest and is_kafka(latest.schema):
        options = writer_options(log.config, topic)
    else:
        options = WriterOptions.of(log.config.log, log.config.topic(topic))
    settings: dict[str, Any] = {"ack": options.ack}
    if options.ack == "local":
        settings["sync"] = options.sync
    return settings | {
        "seal_seconds": options.seal_seconds,
        "seal_bytes": options.seal_bytes,
        "seal_rows": options.seal_rows,
    }


def _partition(each: PartitionInfo) -> dict[str, Any]:
    return {
        "partition": each.partition,
        "owner": each.owner,
        "epoch": each.epoch,
        "first_offset": each.first_offset,
        "sealed_end": each.sealed_end,
        "next_offset": each.next_offset,
        "segments": len(each.segments),
        "segment_bytes": each.segment_bytes,
        "wal_bytes": each.wal_bytes,
    }
