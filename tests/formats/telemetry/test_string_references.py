"""Keys and values that refer to a string table, which only profiles have, are kept."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from frazil.doors.otlp.signals import LOGS, METRICS
from frazil.formats.otlp import logs, metrics
from frazil.formats.telemetry.any_values import warn_of_references
from frazil.formats.telemetry.attributes import to_pairs
from frazil.formats.telemetry.row_messages import plain_rows
from tests.formats.telemetry.support import rows_of

REFERENCE = AnyValue(string_value_strindex=7)


def table_of(*records: LogRecord, resource: Resource | None = None) -> pa.Table:
    level = ResourceLogs(resource=resource, scope_logs=[ScopeLogs(log_records=records)])
    return pa.Table.from_batches([rows_of(LOGS, logs.REQUEST(resource_logs=[level])).batch])


def text(value: str) -> AnyValue:
    return AnyValue(string_value=value)


@pytest.mark.parametrize(
    ("given", "entries", "types"),
    [
        ([KeyValue(key="a", value=REFERENCE)], [("a", None)], 'n {"0":{"value":{"stringValueStrindex":7}}}'),
        (
            [KeyValue(key="a", value=text("x")), KeyValue(key_strindex=5, value=AnyValue(int_value=1))],
            [("a", "x")],
            's {"+1":{"keyStrindex":5,"value":{"intValue":"1"}}}',
        ),
        ([KeyValue(key_strindex=-5)], [], ' {"+0":{"keyStrindex":-5}}'),
        (
            [KeyValue(key_strindex=5, value=text('é"')), KeyValue(key_strindex=5, value=REFERENCE)],
            [],
            ' {"+0":{"keyStrindex":5,"value":{"stringValue":"é\\""}},'
            '"+1":{"keyStrindex":5,"value":{"stringValueStrindex":7}}}',
        ),
        ([KeyValue(key="a", key_strindex=5, value=text("x"))], [("a", "x")], 's {"0":{"keyStrindex":5}}'),
        (
            [KeyValue(key="a", value=text("x")), KeyValue(key="a", key_strindex=5, value=text("y"))],
            [("a", "y")],
            's {"+0":{"key":"a","value":{"stringValue":"x"}},"1":{"keyStrindex":5}}',
        ),
        ([KeyValue(value=text("x")), KeyValue(key_strindex=1)], [("", "x")], 's {"+1":{"keyStrindex":1}}'),
        (
            [KeyValue(key="a", value=AnyValue(array_value=ArrayValue(values=[REFERENCE])))],
            [("a", '{"values": [{"stringValueStrindex": 7}]}')],
            "A",
        ),
        (
            [KeyValue(key="a", value=AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key_strindex=5)])))],
            [("a", '{"values": [{"keyStrindex": 5}]}')],
            "K",
        ),
    ],
)
def test_what_the_columns_say(given: list[KeyValue], entries: list[tuple[str, str | None]], types: str) -> None:
    plain = LogRecord(attributes=[KeyValue(key="plain", value=text("x"))])
    before, row, after = table_of(plain, LogRecord(attributes=given), plain).to_pylist()
    assert (row["attributes"], row["attributes_types"]) == (entries, types)
    assert to_pairs(row["attributes"], row["attributes_types"]) == given
    for other in (before, after):
        assert (other["attributes"], other["attributes_types"]) == ([("plain", "x")], None)


def test_a_body() -> None:
    given = [REFERENCE, AnyValue(string_value_strindex=0), AnyValue(), text("n {}"), AnyValue(int_value=7), None]
    table = table_of(*(LogRecord(time_unix_nano=1, body=body) for body in given))
    assert list(zip(table["body"].to_pylist(), table["body_type"].to_pylist(), strict=True)) == [
        (None, 'n {"stringValueStrindex":7}'),
        (None, 'n {"stringValueStrindex":0}'),
        (None, "n"),
        ("n {}", None),
        ("7", "i"),
        (None, None),
    ]
    assert [logs.to_message(row) for row in plain_rows(table)] == [
        LogRecord(time_unix_nano=1, body=body) for body in given
    ]


def test_sql_finds_keys_and_values_that_are_texts_alone() -> None:
    given = [
        LogRecord(attributes=[KeyValue(key="a", value=REFERENCE), KeyValue(key_strindex=5, value=text("hidden"))]),
        LogRecord(attributes=[KeyValue(key="a", key_strindex=5, value=text("shown"))]),
    ]
    table = table_of(*given)
    query = "SELECT attributes['a'], map_keys(attributes), split_part(attributes_types, ' ', 1) FROM logs"
    found = duckdb.connect().register("logs", table).sql(query).fetchall()
    assert found == [(None, ["a"], "n"), ("shown", ["a"], "s")]


def test_no_service_and_no_label() -> None:
    service = Resource(attributes=[KeyValue(key="service.name", value=REFERENCE)])
    (row,) = table_of(LogRecord(), resource=service).to_pylist()
    assert row["service_name"] is None

    def point(*attributes: KeyValue) -> NumberDataPoint:
        return NumberDataPoint(as_int=1, attributes=[KeyValue(key="host", value=text("h")), *attributes])

    points = [point(), point(KeyValue(key="a", value=REFERENCE)), point(KeyValue(key_strindex=5, value=text("x")))]
    metric = Metric(name="m", gauge=Gauge(data_points=points))
    request = metrics.REQUEST(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=[metric])])])
    assert len(set(rows_of(METRICS, request).batch["series_id"].to_pylist())) == 1


def test_a_value_of_two_types_at_once_is_no_reference() -> None:
    both = b"\x40\x07" + text("x").SerializeToString()
    pair = b"\x0a\x01a\x12" + bytes([len(both)]) + both
    body = b""
    for field, inner in ((6, pair), (2, None), (2, None), (1, None)):
        data = body if inner is None else inner
        body = bytes([field << 3 | 2, len(data)]) + data
    (row,) = rows_of(LOGS, body).batch.to_pylist()
    assert (row["attributes"], row["attributes_types"]) == ([("a", "x")], None)


def test_json() -> None:
    record = {"timeUnixNano": "1", "attributes": [{"keyStrindex": 5, "value": {"stringValueStrindex": 7}}]}
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()
    (row,) = plain_rows(pa.Table.from_batches([rows_of(LOGS, LOGS.requests.from_json(body)).batch]))
    assert logs.to_message(row) == LogRecord(time_unix_nano=1, attributes=[KeyValue(key_strindex=5, value=REFERENCE)])


@pytest.mark.parametrize(
    "record",
    [
        LogRecord(body=REFERENCE),
        LogRecord(attributes=[KeyValue(key="a", value=REFERENCE)]),
        LogRecord(attributes=[KeyValue(key_strindex=5)]),
        LogRecord(body=AnyValue(array_value=ArrayValue(values=[REFERENCE]))),
        LogRecord(body=AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key_strindex=5)]))),
    ],
)
def test_the_first_is_warned_of(record: LogRecord, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_references.cache_clear()
    confusing = AnyValue(bytes_value=b""), text('Strindex":'), text("keyStrindex")
    harmless = KeyValueList(values=[KeyValue(key='a "keyStrindex":', value=value) for value in confusing])
    table_of(LogRecord(body=AnyValue(kvlist_value=harmless)))
    assert not caplog.records
    table_of(record)
    table_of(record)
    assert [each.levelname for each in caplog.records] == ["WARNING"]
