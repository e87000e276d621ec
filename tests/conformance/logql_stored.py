"""Stores the lines of all cases as Loki's clients do, and reads them from table and log."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow.compute as pc

from frazil.config.model import Config
from frazil.engine.memory import LruCache
from frazil.formats.otlp.logs import TOPIC
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt, attempt_folder, new_attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.outcomes import Committed
from frazil.lake.commit.ranges import Range
from frazil.lake.tables.opening import open_base_table
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.topics.schemas import TopicSchemas
from frazil.query.logql.source.label_rules import LabelRules
from frazil.query.logql.source.log_rows import LogRows
from frazil.scan.decode import DecodingRules, RowDecoder
from frazil.scan.log_location import LogLocation
from frazil.scan.read_api import read
from frazil.store import open_store
from tests.conformance.logql_script import Case, Line
from tests.doors.loki.support import PATH, snappy
from tests.doors.telemetry.support import Served, run, settings
from tests.formats.loki.support import message
from tests.query.logql.table_scanner import TableScanner

ZERO_NS = 1_800_000_000 * 1_000_000_000
"""Cases count time from here. It is a multiple of all their steps."""
_RULES = LabelRules(discover_services=False, discover_levels=False)
"""The cases expect the labels that were sent and no others."""
_CACHE_BYTES = 256 * 1024 * 1024

T = TypeVar("T")


def with_stored_lines(cases: list[Case], folder: Path, judge: Callable[[Case, LogRows], T]) -> list[T]:
    """Stores the lines of each case for a tenant of its own, half of them in the table, and judges all cases.

    Cases that follow each other over the same lines share a tenant.
    """
    tenants = _tenants(cases)
    config = settings(folder)
    judged: list[T] = []

    async def scenario(served: Served) -> None:
        for tenant, lines in tenants.items():
            await _push(served, tenant, lines[::2])
        await asyncio.to_thread(_move, config, served)
        for tenant, lines in tenants.items():
            await _push(served, tenant, lines[1::2])
        judged.extend(await asyncio.to_thread(_judged, config, cases, tenants, judge))

    run(config, scenario)
    return judged


def _tenants(cases: list[Case]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for case in cases:
        name = f"t{len(found)}"
        if not found or found[f"t{len(found) - 1}"] is not case.lines:
            found[name] = case.lines
    return found


async def _push(served: Served, tenant: str, lines: list[Line]) -> None:
    streams: dict[tuple[tuple[str, str], ...], list[Line]] = {}
    for line in lines:
        streams.setdefault(tuple(line.labels.items()), []).append(line)
    body = message(
        *(
            (dict(labels), [(ZERO_NS + line.time_ns, line.text, line.metadata) for line in group])
            for labels, group in streams.items()
        )
    )
    answer = await served.post(PATH, snappy(body), api="loki", **{"x-scope-orgid": tenant})
    assert answer.status_code == 204, answer.text


def _move(config: Config, served: Served) -> None:
    """Moves what is in the log to the table, as a mover does."""
    (writer,) = [each for each in served.log.writers if each.topic == TOPIC]
    writer.seal_all()
    store = open_store(config.store, config.data_dir)
    lake = Lake(config)
    columns = TopicSchemas(store, TOPIC).known().schema
    partition, end = writer.partition, writer.next_offset
    sealed = list(LogLocation.of(config, TOPIC).reader(partition).read(0, end))
    epoch = sealed[-1].epoch
    table = open_base_table(lake, store, config, TOPIC, columns, {partition: 0}, {partition: epoch})
    attempt = new_attempt(ZERO_NS // 1_000_000, random.Random(1))
    files = DataFileWriter(table.io, table.metadata, attempt_folder(table.metadata.location, attempt), 0)
    rows = RowDecoder(DecodingRules.of(table.metadata, None))
    for records in sealed:
        files.write(rows.decode(records.batch, partition, records.offset).batch)
    state = TableState.of(table)
    moved = Attempt(
        id=attempt,
        ranges=(Range(partition, 0, end, epoch),),
        files=tuple(files.close()),
        table_uuid=state.uuid,
        schema_id=state.schema_id,
        spec_id=state.spec_id,
    )
    assert isinstance(commit_add_files(lake, table, moved, clock=lambda: ZERO_NS // 1_000_000), Committed)
    lake.close()


def _judged(
    config: Config, cases: list[Case], tenants: dict[str, list[Line]], judge: Callable[[Case, LogRows], T]
) -> list[T]:
    names = {id(lines): tenant for tenant, lines in tenants.items()}
    table = read(TOPIC, config=config).table()
    sources: dict[str, LogRows] = {}
    judged: list[T] = []
    for case in cases:
        tenant = names[id(case.lines)]
        if tenant not in sources:
            own = table.filter(pc.equal(table["tenant_id"], tenant))
            # Later queries over the same lines find what earlier ones kept.
            sources = {tenant: LogRows(TableScanner(own), (tenant,), _RULES, cache=LruCache(lambda: _CACHE_BYTES))}
        judged.append(judge(case, sources[tenant]))
    return judged
