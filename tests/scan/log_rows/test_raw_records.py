"""Tests that telemetry gives the same rows as requests in the log, in segments, and in the table."""

from __future__ import annotations

import asyncio
import random
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from frazil.formats.otlp import logs, raw
from frazil.formats.otlp.plain_requests import RecordLimits
from frazil.formats.telemetry.message_decoding import check
from frazil.log.tail import RAW_RUN_BYTES
from frazil.log.writer.group import BatchAppend
from frazil.scan.interface import ScanRequest
from frazil.scan.predicates.tree import And, Column, Comparison, MapValue
from frazil.scan.scanner import TopicScanner
from tests.query.support import World

LIMITS = RecordLimits(1 << 20, 256)
TENANTS = ("one", "two")


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def request(rng: random.Random, records: int) -> bytes:
    service = Resource(attributes=[text("service.name", f"service-{rng.randrange(3)}"), text("host", "h")])
    found = [
        LogRecord(
            time_unix_nano=rng.randrange(1, 10**12),
            severity_number=rng.choice([9, 13, 17]),  # type: ignore[arg-type]
            body=AnyValue(string_value=f"line {rng.randrange(50)}"),
            attributes=[text(f"key-{rng.randrange(3)}", rng.choice("ab"))] if rng.random() < 0.7 else [],
        )
        for _ in range(records)
    ]
    scopes = [ScopeLogs(log_records=found)]
    body: bytes = ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(resource=service, scope_logs=scopes)]
    ).SerializeToString()
    return body


def append(world: World, bodies: list[bytes], *, large: bool = False) -> None:
    """Appends requests as they came. Only those whose rows seem to be large are sealed so."""
    writer = world.writer(logs.TOPIC, schema=logs.SCHEMA)
    for number, body in enumerate(bodies):
        estimate = raw.LOGS.estimate(check(raw.LOGS.message, body), body, LIMITS)
        assert estimate is not None
        estimate = estimate._replace(nbytes=RAW_RUN_BYTES) if large else estimate
        stored = raw.LOGS.raw([TENANTS[number % 2]], [body], [estimate])
        asyncio.run(writer.append_raw(stored, [BatchAppend(estimate.rows, None)]))


def everything(scanner: TopicScanner) -> pa.Table:
    found = scanner.scan(ScanRequest(logs.TOPIC, None)).table().sort_by("_offset").combine_chunks()
    return found.drop_columns(["ingested_timestamp", "ingested_timestamp_ns"])


def some(scanner: TopicScanner) -> list[int]:
    where = And((Comparison(MapValue("attributes", "key-1"), "==", "a"), Comparison(Column("body"), "!=", "line 7")))
    scan = scanner.scan(
        ScanRequest(logs.TOPIC, ("two",), where=where, columns=("_offset",), order="newest first", limit=30)
    )
    found: list[int] = scan.table()["_offset"].to_pylist()
    return found


def test_requests_are_the_same_rows_wherever_they_are(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with World(tmp_path) as world, closing(TopicScanner(world.config)) as scanner:
        append(world, [request(rng, 20) for _ in range(6)])
        # Small blocks of the tail are joined with each other as they come.
        for _ in range(5):
            append(world, [request(rng, 3)])
            everything(scanner)
        first, newest = everything(scanner), some(scanner)
        assert len(first) == 135
        count = scanner.scan(ScanRequest(logs.TOPIC, None, columns=()))
        assert len(count.table()) == 135
        assert count.statistics.bytes_read == 0
        with closing(TopicScanner(world.config)) as cold:
            assert everything(cold).equals(first)
        world.seal(logs.TOPIC)
        append(world, [request(rng, 4) for _ in range(4)], large=True)
        world.seal(logs.TOPIC)
        both = everything(scanner)
        assert both.slice(0, 135).equals(first)
        newest = some(scanner)
        with closing(TopicScanner(world.config)) as cold:
            assert everything(cold).equals(both)
            assert some(cold) == newest
        world.move(logs.TOPIC)
        assert everything(scanner).equals(both)
        assert some(scanner) == newest
