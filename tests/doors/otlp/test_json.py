"""OTLP in JSON has hexadecimal ids where the messages have ids, and nowhere else."""

from __future__ import annotations

import asyncio
import json
import math
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from frazil.doors.otlp.json_body import to_protobuf
from frazil.doors.otlp.signals import LOGS, METRICS, SIGNALS, SPANS, Signal
from frazil.errors import RequestError
from tests.doors.otlp.json_requests import REQUESTS
from tests.doors.telemetry.support import JSON, TIME, Served, rows, run, settings

IDS = ("trace_id", "span_id", "parent_span_id")
POINTS = ("gauge", "sum", "histogram", "exponential_histogram")
WAYS = {
    LOGS: ["resource_logs scope_logs log_records"],
    SPANS: ["resource_spans scope_spans spans", "resource_spans scope_spans spans links"],
    METRICS: [f"resource_metrics scope_metrics metrics {kind} data_points exemplars" for kind in POINTS],
}
"""The ways to all fields that are ids, in the names of Protobuf."""
PLACES = [(signal, way) for signal, ways in WAYS.items() for way in ways]


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def same(name: str) -> str:
    return name


def camelled(way: str) -> list[str]:
    return [camel(name) for name in way.split()]


ALONE = {*POINTS, *map(camel, POINTS)}
"""The fields that are not lists."""


def found_at(data: Any, way: list[str]) -> Iterator[dict[str, Any]]:
    if isinstance(data, list):
        for item in data:
            yield from found_at(item, way)
    elif not way:
        yield data
    elif way[0] in data:
        yield from found_at(data[way[0]], way[1:])


def placed_at(way: list[str], data: Any) -> Any:
    for name in reversed(way):
        data = {name: data if name in ALONE else [data]}
    return data


def parsed(signal: Signal, data: Any) -> Message:
    return signal.requests.message.FromString(to_protobuf(signal.requests.message, json.dumps(data).encode()))


@pytest.mark.parametrize("named", [camel, same], ids=["as in JSON", "as in Protobuf"])
@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.requests.topic)
@given(data=st.data())
def test_all_of_it_comes_back(signal: Signal, named: Any, data: st.DataObject) -> None:
    request = data.draw(REQUESTS[signal])
    expected = MessageToDict(request)
    written = MessageToDict(request, preserving_proto_field_name=named is same)
    for way in WAYS[signal]:
        for each in found_at(written, [named(name) for name in way.split()]):
            each.update({name: b64decode(each[name]).hex() for name in map(named, IDS) if name in each})
    # Only in JSON is NaN equal to itself.
    assert MessageToDict(parsed(signal, written)) == expected


@pytest.mark.parametrize("named", [camel, same], ids=["as in JSON", "as in Protobuf"])
@pytest.mark.parametrize(("signal", "way"), PLACES)
def test_an_id_that_is_not_hexadecimal(signal: Signal, way: str, named: Any) -> None:
    names, trace_id = [named(name) for name in way.split()], named("trace_id")
    for wrong in ("no hex", "abc", "ä" * 32):
        with pytest.raises(RequestError, match=f"in JSON: {trace_id} is not hexadecimal: '{wrong}'"):
            parsed(signal, placed_at(names, {trace_id: wrong}))
    (found,) = found_at(MessageToDict(parsed(signal, placed_at(names, {trace_id: "ABcd"}))), camelled(way))
    assert b64decode(found["traceId"]) == b"\xab\xcd"


def point_of(text: str) -> Any:
    """Returns a data point in JSON as it arrives."""
    data = placed_at(camelled("resource_metrics scope_metrics metrics gauge data_points"), "POINT")
    message = METRICS.requests.message
    request = message.FromString(to_protobuf(message, json.dumps(data).replace('"POINT"', text).encode()))
    (point,) = request.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points
    return point


@pytest.mark.parametrize("zero", ["-0", "-0.0", "-0e0", '"-0"'])
def test_a_zero_keeps_its_sign_however_it_is_written(zero: str) -> None:
    """Go writes the double as `-0`."""
    point = point_of(f'{{"asDouble": {zero}, "attributes": [{{"key": "-0,", "value": {{"doubleValue": {zero}}}}}]}}')
    assert [math.copysign(1, value) for value in (point.as_double, point.attributes[0].value.double_value)] == [
        -1,
        -1,
    ]
    assert point.attributes[0].key == "-0,"


def test_a_whole_number_has_no_such_sign() -> None:
    point = point_of('{"asInt": -0, "flags": -0, "timeUnixNano": -0}')
    assert (point.WhichOneof("value"), point.as_int, point.flags, point.time_unix_nano) == ("as_int", 0, 0, 0)


UNKNOWN = [
    (LOGS, "", {"traceId": "not hex"}),
    (LOGS, "resource_logs", {"future": {"traceId": "not hex"}, "scopeLogs": []}),
    (LOGS, "resource_logs", {"resource": {"span_id": "not hex"}}),
    (LOGS, "resource_logs scope_logs log_records", {"future": [{"traceId": "not hex"}], "parentSpanId": "not hex"}),
    (LOGS, "resource_logs scope_logs log_records", {"body": {"stringValue": "a", "traceId": "not hex"}}),
    (SPANS, "resource_spans scope_spans spans", {"events": [{"name": "a", "traceId": "not hex"}]}),
    (SPANS, "resource_spans scope_spans spans links", {"parentSpanId": "not hex"}),
    (METRICS, "resource_metrics scope_metrics metrics", {"name": "a", "traceId": "not hex"}),
    (
        METRICS,
        "resource_metrics scope_metrics metrics",
        {"summary": {"dataPoints": [{"exemplars": [{"traceId": "not hex"}]}]}},
    ),
]


@pytest.mark.parametrize(("signal", "way", "data"), UNKNOWN)
def test_fields_that_nobody_knows_are_passed_over(signal: Signal, way: str, data: dict[str, Any]) -> None:
    text = json.dumps(placed_at(camelled(way), data))
    assert text.count("not hex") in (1, 2)
    for name in ("traceId", "span_id", "parentSpanId"):
        text = text.replace(f'"{name}": "not hex"', '"unheardOf": 1')
    assert parsed(signal, placed_at(camelled(way), data)) == parsed(signal, json.loads(text))


def test_values_that_are_called_ids_stay_as_they_are(tmp_path: Path) -> None:
    pairs = [
        {"key": name, "value": {"stringValue": text}} for name, text in (("traceId", "abcd"), ("spanId", "no hex"))
    ]
    record = {
        "timeUnixNano": str(TIME),
        "traceId": "5b8efff798038103d269b633813fc60c",
        "body": {"kvlistValue": {"values": pairs}},
        "attributes": [*pairs, {"key": "within", "value": {"kvlistValue": {"values": pairs}}}],
    }
    resource = {"attributes": [{"key": "trace_id", "value": {"stringValue": "abcd"}}]}
    future = {"traceId": "not hex"}
    body = {"resourceLogs": [{"resource": resource, "future": future, "scopeLogs": [{"logRecords": [record]}]}]}
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        answer = await served.post("/v1/logs", json.dumps(body).encode(), **JSON)
        assert answer.status_code == 200, answer.content
        (row,) = (await asyncio.to_thread(rows, config)).to_pylist()
        as_one = '{"traceId":"abcd","spanId":"no hex"}'
        assert row["trace_id"].hex() == record["traceId"]
        assert row["body"] == as_one
        assert dict(row["attributes"]) == {"traceId": "abcd", "spanId": "no hex", "within": as_one}
        assert dict(row["resource_attributes"]) == {"trace_id": "abcd"}

    run(config, scenario)
