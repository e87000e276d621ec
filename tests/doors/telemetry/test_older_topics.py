"""Topics and tables that were created before some columns existed get them, and keep what they had."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from frazil.config.model import Config
from frazil.doors.otlp.signals import LOGS
from frazil.formats.otlp import logs, raw
from frazil.formats.otlp.plain_requests import RecordLimits
from frazil.formats.telemetry.message_decoding import check
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from frazil.log.writer.group import Ack, BatchAppend
from frazil.query.sql.session import SqlSession
from tests.doors.loki.support import push, push_body
from tests.doors.telemetry.support import TIME, Served, logs_request, run, settings
from tests.formats.telemetry.support import rows_of
from tests.pipeline.support import move_all, pipeline_context

COLUMNS = "SELECT body, ingest_protocol, detected_level FROM logs ORDER BY body"


def without(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in names])


def stored_before(config: Config) -> None:
    """Prepares a row in the table, one in a segment, one in the WAL, and a request in the WAL as it came."""
    older = without(logs.SCHEMA, "ingest_protocol", "detected_level")
    body = logs_request("in the WAL as it came info").SerializeToString()
    estimate = raw.LOGS.estimate(check(logs.REQUEST, body), body, RecordLimits(1 << 20, 100))
    assert estimate is not None
    with closing(Log(config)) as log, pipeline_context(config) as tools:
        writer = log.writer(logs.TOPIC, older)
        for number, where in enumerate(("in the table info", "in a segment info", "in the WAL info")):
            rows = rows_of(LOGS, logs_request(where, time=TIME + number)).batch.select(older.names)
            tenants = pa.array(["default"], pa.string())
            writer.append(rows.set_column(0, rows.schema.field(0), tenants))
            if number < 2:
                writer.seal_all()
            if not number:
                move_all(tools, logs.TOPIC)
        kept = raw.LOGS.raw(["default"], [body], [estimate])._replace(schema=older)
        (outcome,) = asyncio.run(writer.append_raw(kept, [BatchAppend(1)]))
        assert isinstance(outcome, Ack)


def move(config: Config) -> None:
    with closing(Log(config)) as log, pipeline_context(config) as tools:
        log.writer(logs.TOPIC, logs.SCHEMA).seal_all()
        move_all(tools, logs.TOPIC)


def asked(config: Config, text: str) -> list[tuple[Any, ...]]:
    with SqlSession(config) as session:
        return [tuple(row.values()) for row in session.ask(text, "default").to_pylist()]


def test_log_records_say_how_they_came_and_at_which_level(tmp_path: Path) -> None:
    config = settings(tmp_path)
    stored_before(config)
    expected: list[tuple[str, str | None, str | None]] = [
        (f"in {where} info", None, None) for where in ("a segment", "the WAL", "the table")
    ]
    expected.insert(2, ("in the WAL as it came info", None, None))
    expected.sort()
    assert asked(config, "SELECT body FROM logs ORDER BY body") == [(body,) for body, *_ in expected]

    async def scenario(served: Served) -> None:
        small = logs_request("otlp error", "otlp level=warn").SerializeToString()
        assert (await served.post("/v1/logs", small)).status_code == 200
        # Compressed requests are converted to rows before they are stored.
        large = pa.compress(logs_request("otlp fatal").SerializeToString(), "snappy", asbytes=True)
        assert (await served.post("/v1/logs", large, content_encoding="snappy")).status_code == 200
        assert (
            await push(served, push_body("pushed", labels={"app": "x", "severity": "CRITICAL"}))
        ).status_code == 204
        assert (await push(served, push_body("pushed debug: x"))).status_code == 204

    run(config, scenario)
    expected += [
        ("otlp error", "otlp", "error"),
        ("otlp fatal", "otlp", "fatal"),
        ("otlp level=warn", "otlp", "warn"),
        ("pushed", "loki", "critical"),
        ("pushed debug: x", "loki", "debug"),
    ]
    assert asked(config, COLUMNS) == expected
    move(config)
    table = Lake(config).load(base_identifier(config, logs.TOPIC))
    assert table.scan().to_arrow().num_rows == len(expected)
    assert asked(config, COLUMNS) == expected
