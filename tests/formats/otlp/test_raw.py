"""Requests that are stored as they came have the rows that would have been stored at once."""

from __future__ import annotations

import asyncio
import base64
import logging
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
    SummaryDataPoint,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from frazil.doors.otlp.signals import LOGS, METRICS, SPANS, Signal
from frazil.errors import RequestError
from frazil.formats.otlp import logs, metrics, raw, spans
from frazil.formats.otlp.plain_requests import GROWTH, MAX_BODY_BYTES, RecordLimits, RowEstimate
from frazil.formats.otlp.raw import RequestForm
from frazil.formats.telemetry.message_decoding import check, decode
from frazil.formats.telemetry.rows import ROW_BYTES, Arrival, TelemetryRows
from frazil.log.forms import form_of
from frazil.log.log import Log
from frazil.log.raw import segments as raw_segments
from frazil.log.schema.repeated_texts import REPEATS
from frazil.log.tail import RAW_RUN_BYTES
from frazil.log.writer.group import BatchAppend
from tests.formats.otlp.log_requests import requests as logs_requests
from tests.formats.otlp.span_requests import requests as spans_requests
from tests.formats.telemetry import metric_strategies
from tests.formats.telemetry.raw_fields import raw as raw_field
from tests.formats.telemetry.support import NOW, rows_of
from tests.lake.support import local_config

LIMITS = RecordLimits(1 << 20, 256)
FORMS = {raw.LOGS: LOGS, raw.SPANS: SPANS, raw.METRICS: METRICS}
REQUESTS: dict[RequestForm, st.SearchStrategy[Message]] = {
    raw.LOGS: logs_requests,
    raw.SPANS: spans_requests,
    raw.METRICS: metric_strategies.requests,
}
NOW_MS = NOW // 10**6
each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def a_log(**changes: Any) -> LogRecord:
    return LogRecord(**{"time_unix_nano": 1, "trace_id": b"t" * 16, "span_id": b"s" * 8, **changes})


def a_span(**changes: Any) -> Span:
    return Span(**{"start_time_unix_nano": 1, "trace_id": b"t" * 16, "span_id": b"s" * 8, **changes})


def of_logs(*records: LogRecord, resource: Resource | None = None) -> Message:
    return logs.REQUEST(resource_logs=[ResourceLogs(resource=resource, scope_logs=[ScopeLogs(log_records=records)])])


def of_spans(*records: Span) -> Message:
    return spans.REQUEST(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=records)])])


def of_metrics(*given: Metric) -> Message:
    return metrics.REQUEST(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=given)])])


def attributes(count: int) -> list[KeyValue]:
    return [KeyValue(key=f"key-{number}", value=AnyValue(string_value="x")) for number in range(count)]


def estimate_of(form: RequestForm, request: Message | bytes, limits: RecordLimits = LIMITS) -> RowEstimate | None:
    """Returns the estimate; None also for bytes that are not a request."""
    body = request if isinstance(request, bytes) else request.SerializeToString()
    try:
        return form.estimate(check(form.message, body), body, limits)
    except RequestError:
        return None


def made(form: RequestForm, bodies: list[bytes]) -> pa.RecordBatch:
    """Returns the rows of plain requests after they were stored, each by a tenant of its own."""
    estimates = [estimate_of(form, body) for body in bodies]
    tenants = [f"tenant-{number}" for number in range(len(bodies))]
    stored = form.raw(tenants, bodies, [each for each in estimates if each])
    assert len(stored.appends) == len(bodies)
    rows = form.rows(stored.appends, np.full(len(bodies), NOW_MS))
    rows.validate(full=True)
    assert rows.num_rows == stored.rows
    return rows


def at_once(signal: Signal, bodies: list[bytes]) -> pa.RecordBatch:
    """Returns the rows that would be stored at once; they arrive in another millisecond."""
    batch = rows_of(signal, *bodies).batch
    times = pa.repeat(pa.scalar(NOW_MS * 10**6, batch["ingested_timestamp"].type), len(batch))
    return batch.set_column(
        batch.schema.names.index("ingested_timestamp"), batch.schema.field("ingested_timestamp"), times
    )


def same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Compares rows as texts, because NaN is not equal to itself."""
    return repr(one.to_pylist()) == repr(other.to_pylist())


@each_form
@given(data=st.data())
def test_the_rows_are_the_same(form: RequestForm, data: st.DataObject) -> None:
    given = data.draw(st.lists(REQUESTS[form], max_size=4))
    bodies = [body for request in given if estimate_of(form, body := request.SerializeToString())]
    if bodies:
        assert same(made(form, bodies), at_once(FORMS[form], bodies))


def without_dictionaries(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    rows.validate(full=True)
    return rows.cast(schema)


@each_form
@given(data=st.data())
def test_rows_with_dictionaries_are_the_same(form: RequestForm, data: st.DataObject) -> None:
    """The requests come several times, so that their content repeats."""
    given = data.draw(st.lists(REQUESTS[form], min_size=1, max_size=3))
    bodies = [request.SerializeToString() for request in given] * data.draw(st.integers(1, REPEATS + 1))
    decoded = decode(form.message, bodies)
    arrival = Arrival([f"tenant-{number % 2}" for number in range(len(bodies))], NOW)
    encoded, plain = form.to_rows(decoded, arrival, dictionaries=True), form.to_rows(decoded, arrival)
    assert same(without_dictionaries(encoded.batch, form.rows_schema), plain.batch)
    assert encoded.requests.tolist() == plain.requests.tolist()
    assert encoded[2:] == plain[2:]


def test_what_records_share_is_in_dictionaries() -> None:
    """The dictionaries have each text once, and none that no row has."""
    metric = Metric(name="requests", unit="1", gauge=Gauge(data_points=[NumberDataPoint(time_unix_nano=1)] * REPEATS))
    other = Metric(name="errors", unit="1", gauge=Gauge(data_points=[NumberDataPoint(time_unix_nano=1)] * REPEATS))
    level = ResourceMetrics(
        resource=Resource(attributes=attributes(2)), scope_metrics=[ScopeMetrics(metrics=[metric, other, metric])]
    )
    empty = ResourceMetrics(resource=Resource(attributes=attributes(3)), scope_metrics=[ScopeMetrics()])
    request = metrics.REQUEST(resource_metrics=[level, empty])
    arrival = Arrival(["somebody"], NOW)
    rows = metrics.to_rows(decode(metrics.REQUEST, [request.SerializeToString()]), arrival, dictionaries=True).batch
    found = {name: rows[name].dictionary.to_pylist() for name in ("metric_name", "unit", "metric_type")}
    assert {name: sorted(texts) for name, texts in found.items()} == {
        "metric_name": ["errors", "requests"],
        "unit": ["1"],
        "metric_type": ["gauge"],
    }
    assert rows["resource_attributes"].keys.dictionary.to_pylist() == ["key-0", "key-1"]
    assert rows["service_name"].null_count == len(rows)


@pytest.mark.parametrize("together", [False, True])
def test_segments_with_dictionaries(tmp_path: Path, together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds also if rows are made of some requests at a time, whose dictionaries differ."""
    if not together:
        monkeypatch.setattr(raw_segments, "RUN_BYTES", 1)
    named = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value="shop"))])
    records = [a_log(attributes=attributes(2), body=AnyValue(string_value="x" * 50)) for _ in range(2 * REPEATS)]
    requests = [of_logs(*records, resource=resource) for resource in (named, Resource(), named, None)]
    bodies = [request.SerializeToString() for request in requests]
    estimates = [found for body in bodies if (found := estimate_of(raw.LOGS, body))]
    # Only requests whose rows would be large are sealed as they came.
    large = [found._replace(nbytes=RAW_RUN_BYTES // len(bodies)) for found in estimates]
    with closing(Log(local_config(tmp_path))) as log:
        writer = log.writer(logs.TOPIC, logs.SCHEMA)
        for body, estimate in zip(bodies, large, strict=True):
            stored = raw.LOGS.raw(["somebody"], [body], [estimate])
            asyncio.run(writer.append_raw(stored, [BatchAppend(estimate.rows, None)]))
        writer.seal_all()
        reader = log.reader(logs.TOPIC, 0)
        plain = pa.Table.from_batches([each.batch for each in reader.read(0, writer.sealed_end)])
        encoded = [each.batch for each in reader.read(0, writer.sealed_end, dictionaries=True)]
    assert any(types.is_dictionary(batch.schema.field("resource_schema_url").type) for batch in encoded)
    assert pa.Table.from_batches([without_dictionaries(batch, logs.SCHEMA) for batch in encoded]).equals(plain)
    assert [dict(each)["key-1"] for each in plain["attributes"].to_pylist()] == ["x"] * len(plain)


@each_form
@given(data=st.data())
def test_whatever_is_plain_can_be_made_rows(form: RequestForm, data: st.DataObject) -> None:
    """This holds also for damaged messages: once they are acknowledged it is too late to refuse them."""
    body = bytearray(data.draw(REQUESTS[form]).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            place = data.draw(st.integers(0, len(body) - 1))
            body[place] ^= 1 << data.draw(st.integers(0, 7))
    damaged = bytes(body[: data.draw(st.integers(0, len(body)))])
    if estimate_of(form, damaged):
        rows = made(form, [damaged])
        assert raw.ERROR not in str(rows["attributes"].to_pylist())
        assert same(rows, at_once(FORMS[form], [damaged]))


@each_form
def test_a_form_is_found_by_its_name(form: RequestForm) -> None:
    assert form_of(form.name) is form


def test_plain_requests() -> None:
    resource = Resource(attributes=attributes(3))
    request = of_logs(a_log(), a_log(body=AnyValue(string_value="x" * 100)), a_log(trace_id=b""), resource=resource)
    found = estimate_of(raw.LOGS, request)
    assert found is not None
    assert found.rows == 3
    (batch, *_) = rows_of(LOGS, request)
    assert batch.nbytes / 2 < found.nbytes < batch.nbytes * 4
    assert estimate_of(raw.SPANS, of_spans(a_span(), a_span(parent_span_id=b"p" * 8))) is not None
    points = [NumberDataPoint(time_unix_nano=1), NumberDataPoint(time_unix_nano=2)]
    counted = HistogramDataPoint(time_unix_nano=1, count=2**63 - 1, bucket_counts=[2**63 - 1])
    number = Metric(name="requests", gauge=Gauge(data_points=points))
    histogram = Metric(name="seconds", histogram=Histogram(data_points=[counted]))
    found = estimate_of(raw.METRICS, of_metrics(number, histogram, Metric(name="without any points")))
    assert found is not None
    assert found.rows == 3


def test_large_requests() -> None:
    records = [a_log(body=AnyValue(string_value=f"{number} {'x' * 300}")) for number in range(3000)]
    body = of_logs(*records).SerializeToString()
    assert len(body) > 10 * (1 << 20) // GROWTH
    found = estimate_of(raw.LOGS, body)
    assert found is not None
    assert found.rows == 3000
    assert same(made(raw.LOGS, [body]), at_once(LOGS, [body]))
    assert estimate_of(raw.LOGS, body, LIMITS._replace(append_nbytes=found.nbytes - 1)) is None
    points = [NumberDataPoint(time_unix_nano=1, attributes=attributes(2)) for _ in range(3000)]
    assert estimate_of(raw.METRICS, of_metrics(Metric(gauge=Gauge(data_points=points)))) is not None


def _two_kinds() -> bytes:
    """Returns a metric with points of two kinds: for the Protobuf runtime only the last one counts, and for us both
    do."""
    points = [NumberDataPoint(time_unix_nano=1)]
    kinds = (Metric(gauge=Gauge(data_points=points)), Metric(sum=Sum(data_points=points)))
    return raw_field(1, raw_field(2, raw_field(2, b"".join(kind.SerializeToString() for kind in kinds))))


WIDE = 2**63
NOT_PLAIN: dict[str, tuple[RequestForm, Message | bytes]] = {
    "no record": (raw.LOGS, of_logs()),
    "nothing": (raw.SPANS, b""),
    "no message": (raw.LOGS, b"\xff" * 9),
    "text that is no UTF-8": (
        raw.LOGS,
        of_logs(a_log(severity_text="xy")).SerializeToString().replace(b"xy", b"\xff\xfe"),
    ),
    "no time": (raw.LOGS, of_logs(a_log(), a_log(time_unix_nano=0))),
    "a time that no clock shows": (raw.LOGS, of_logs(a_log(time_unix_nano=WIDE))),
    "no start": (raw.SPANS, of_spans(a_span(start_time_unix_nano=0))),
    "no time of a point": (raw.METRICS, of_metrics(Metric(gauge=Gauge(data_points=[NumberDataPoint()])))),
    "short trace id": (raw.LOGS, of_logs(a_log(trace_id=b"t" * 15))),
    "trace id of zeros": (raw.SPANS, of_spans(a_span(trace_id=bytes(16)))),
    "long span id": (raw.SPANS, of_spans(a_span(span_id=b"s" * 9))),
    "span id of zeros": (raw.LOGS, of_logs(a_log(span_id=bytes(8)))),
    "parent of zeros": (raw.SPANS, of_spans(a_span(parent_span_id=bytes(8)))),
    "many attributes": (raw.LOGS, of_logs(a_log(attributes=attributes(257)))),
    "many attributes of a resource": (raw.LOGS, of_logs(a_log(), resource=Resource(attributes=attributes(257)))),
    "large": (raw.LOGS, of_logs(a_log(body=AnyValue(string_value="x" * MAX_BODY_BYTES)))),
    "dense": (raw.LOGS, of_logs(*[LogRecord(time_unix_nano=1)] * 100)),
    "dense levels": (raw.LOGS, logs.REQUEST(resource_logs=[ResourceLogs()] * 500)),
    "dense scopes": (
        raw.LOGS,
        logs.REQUEST(
            resource_logs=[ResourceLogs(scope_logs=[*[ScopeLogs()] * 500, ScopeLogs(log_records=[a_log()])])]
        ),
    ),
    "rows that are large": (
        raw.LOGS,
        of_logs(*[a_log()] * 1100, resource=Resource(attributes=[KeyValue(key="x" * 8000)])),
    ),
    "a large record among many": (
        raw.LOGS,
        of_logs(*[a_log()] * 100, a_log(body=AnyValue(string_value="x" * ((1 << 20) // GROWTH)))),
    ),
    "many attributes of a record among many": (
        raw.SPANS,
        of_spans(*[a_span()] * 3000, a_span(attributes=attributes(257))),
    ),
    "a count that no column has": (
        raw.METRICS,
        of_metrics(Metric(summary=Summary(data_points=[SummaryDataPoint(time_unix_nano=1, count=WIDE)]))),
    ),
    "a bucket that no column has": (
        raw.METRICS,
        of_metrics(
            Metric(histogram=Histogram(data_points=[HistogramDataPoint(time_unix_nano=1, bucket_counts=[1, WIDE])]))
        ),
    ),
    "a bucket below zero that no column has": (
        raw.METRICS,
        of_metrics(
            Metric(
                exponential_histogram=ExponentialHistogram(
                    data_points=[
                        ExponentialHistogramDataPoint(
                            time_unix_nano=1,
                            negative=ExponentialHistogramDataPoint.Buckets(bucket_counts=[WIDE]),
                        )
                    ]
                )
            )
        ),
    ),
    "points of two kinds in one metric": (raw.METRICS, _two_kinds()),
}


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_what_is_not_plain(case: str) -> None:
    form, request = NOT_PLAIN[case]
    assert estimate_of(form, request) is None


def test_limits_of_a_tenant() -> None:
    request = of_logs(a_log(attributes=attributes(10)))
    size = len(request.SerializeToString())
    assert estimate_of(raw.LOGS, request, RecordLimits(1 << 20, 10)) is not None
    assert estimate_of(raw.LOGS, request, RecordLimits(1 << 20, 9)) is None
    assert estimate_of(raw.LOGS, request, RecordLimits(GROWTH * size + ROW_BYTES, 10)) is not None
    assert estimate_of(raw.LOGS, request, RecordLimits(GROWTH * size, 10)) is None


def test_without_enough_memory_nothing_is_decided() -> None:
    """The conversion is tried again, with all requests."""

    def to_rows(requests: pa.RecordBatch, arrival: Arrival, *, dictionaries: bool = False) -> TelemetryRows:
        raise pa.ArrowMemoryError("malloc of size 8 failed")

    with pytest.raises(MemoryError):
        made(replace(raw.LOGS, to_rows=to_rows), [of_logs(a_log()).SerializeToString()])


def test_what_cannot_be_made_rows_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Such a request should not be there, but it was acknowledged. The others are not affected."""

    def to_rows(requests: pa.RecordBatch, arrival: Arrival, *, dictionaries: bool = False) -> TelemetryRows:
        if "bad" in str(requests.to_pylist()):
            raise ArithmeticError("no such number")
        return logs.to_rows(requests, arrival)

    broken = replace(raw.LOGS, to_rows=to_rows)
    bodies = [
        of_logs(
            *(a_log(severity_text=text, body=AnyValue(string_value="x" * 50)) for text in texts)
        ).SerializeToString()
        for texts in (["good"], ["bad", "bad", "bad"], ["fine", "well"])
    ]
    with caplog.at_level(logging.INFO):
        rows = made(broken, bodies)
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert rows["severity_text"].to_pylist() == ["good", None, None, None, "fine", "well"]
    assert rows["tenant_id"].to_pylist() == ["tenant-0", *["tenant-1"] * 3, *["tenant-2"] * 2]
    assert rows["timestamp"].cast(pa.int64()).to_pylist()[1] == NOW_MS * 10**6
    first, *others = (dict(each) for each in rows["attributes"].to_pylist()[1:4])
    assert first[raw.ERROR] == "ArithmeticError: no such number"
    assert base64.b64decode(first[raw.REQUEST]) == bodies[1]
    assert others == [{}, {}]
