"""OTLP's log records become rows of a table, and nothing is lost."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from frazil.doors.otlp.signals import LOGS
from frazil.errors import RequestError
from frazil.formats.otlp import logs
from frazil.formats.telemetry.row_messages import plain_rows, resource_of, scope_of
from frazil.formats.telemetry.rows import TelemetryRows
from tests.formats.otlp.log_requests import requests
from tests.formats.telemetry.support import NOW, rows_of


def one(record: LogRecord) -> TelemetryRows:
    return rows_of(LOGS, logs.REQUEST(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=[record])])]))


@given(given=st.lists(requests, min_size=1, max_size=3))
def test_all_of_it_comes_back(given: list[logs.REQUEST]) -> None:
    batch, of_request, invalid, *_ = rows_of(LOGS, *given)
    expected = [
        (number, of_resource, of_scope, record)
        for number, request in enumerate(given)
        for of_resource in request.resource_logs
        for of_scope in of_resource.scope_logs
        for record in of_scope.log_records
    ]
    assert invalid == 0
    assert batch.schema == logs.SCHEMA
    found = list(plain_rows(pa.Table.from_batches([batch])))
    assert of_request.tolist() == [number for number, *_ in expected]
    for row, (number, of_resource, of_scope, record) in zip(found, expected, strict=True):
        assert row["tenant_id"] == f"tenant-{number}"
        assert row["ingested_timestamp"] == NOW
        assert logs.to_message(row) == record
        assert resource_of(row) == (of_resource.resource if of_resource.HasField("resource") else None)
        assert scope_of(row) == (of_scope.scope if of_scope.HasField("scope") else None)
        assert row["resource_schema_url"] == of_resource.schema_url
        assert row["scope_schema_url"] == of_scope.schema_url


def test_no_time_is_that_of_arrival() -> None:
    for time in (0, 2**63, 2**64 - 1):
        (row,) = plain_rows(pa.Table.from_batches([one(LogRecord(time_unix_nano=time)).batch]))
        assert row["timestamp"] == NOW
        assert row["observed_timestamp"] is None


@pytest.mark.parametrize("wrong", [b"\0" * 16, b"short", b"x" * 17])
def test_invalid_ids_are_null_and_counted(wrong: bytes) -> None:
    rows = one(LogRecord(trace_id=wrong, span_id=b"12345678"))
    (row,) = rows.batch.to_pylist()
    assert rows.invalid_ids == 1
    assert row["trace_id"] is None
    assert row["span_id"] == b"12345678"


def test_the_last_of_several_attributes_of_one_name_counts() -> None:
    pairs = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)]
    record = LogRecord(attributes=[KeyValue(key=key, value=AnyValue(int_value=value)) for key, value in pairs])
    rows = rows_of(
        LOGS,
        logs.REQUEST(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=[LogRecord(), record, record])])]),
    )
    for row in rows.batch.to_pylist()[1:]:
        assert row["attributes"] == [("a", "3"), ("c", "4"), ("b", "5")]
        assert row["attributes_types"] == "iii"


def test_numbers_that_are_none() -> None:
    (row,) = one(LogRecord(body=AnyValue(double_value=math.nan))).batch.to_pylist()
    assert (row["body"], row["body_type"]) == ("nan", "d")
    assert math.isnan(logs.to_message({**row, "timestamp": 1}).body.double_value)


def test_service_names() -> None:
    names = [AnyValue(string_value="shop"), AnyValue(string_value=""), AnyValue(int_value=5), None]
    request = logs.REQUEST()
    for name in names:
        level = request.resource_logs.add()
        level.resource.attributes.add(key="service.name", value=name)
        level.scope_logs.add().log_records.add()
    assert rows_of(LOGS, request).batch["service_name"].to_pylist() == ["shop", None, "5", None]


def test_a_long_resource_of_many_records_is_refused() -> None:
    request = logs.REQUEST()
    level = request.resource_logs.add()
    level.resource.attributes.add(key="service.name").value.string_value = "x" * 100_000
    for _ in range(20_000):
        level.scope_logs.add().log_records.add(time_unix_nano=1)
    with pytest.raises(RequestError, match="Send smaller batches, or shorter attributes"):
        rows_of(LOGS, request)
