"""Stores the lines of all cases as Loki's clients do, and reads them from table and log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow.compute as pc

from frazil.config.model import Config
from frazil.engine.memory import LruCache
from frazil.formats.otlp.logs import TOPIC
from frazil.query.logql.source.label_rules import LabelRules
from frazil.query.logql.source.log_rows import LogRows
from frazil.scan.read_api import read
from tests.conformance.logql_script import Case, Line
from tests.doors.loki.support import PATH, snappy
from tests.doors.telemetry.support import Served, run, settings
from tests.formats.loki.support import message
from tests.query.logql.moving import move_lines
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
    (writer,) = [each for each in served.log.writers if each.topic == TOPIC]
    move_lines(config, writer)


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
