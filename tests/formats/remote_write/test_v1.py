"""Samples of remote write become rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics

from frazil.doors.otlp.signals import METRICS
from frazil.errors import RequestError
from frazil.formats.otlp import metrics
from frazil.formats.remote_write.histograms import STALE
from frazil.formats.remote_write.messages import WriteRequest
from frazil.formats.telemetry.row_messages import Row, plain_rows, resource_of, scope_of
from frazil.formats.telemetry.rows import TelemetryRows
from frazil.formats.telemetry.series import labels, series_id
from frazil.lake.mapping.mapper import Mapper
from frazil.lake.schema.table_schema import base_table_schema
from tests.formats.remote_write.support import STALE_NUMBER, TIME_MS, add, bits_of, plain, requests, rows_of
from tests.formats.telemetry import support
from tests.formats.telemetry.support import NOW

LATEST_MS = (2**63 - 1) // 10**6


class Sample(NamedTuple):
    request: int
    labels: dict[str, str]
    bits: int
    time_ns: int


def samples_of(number: int, request: Message) -> Iterator[Sample | None]:
    """Converts a request with a plain loop; yields None for samples that can never be stored."""
    for series in request.timeseries:
        told = [(label.name, label.value) for label in series.labels if label.value]
        names = [name for name, _ in told]
        wrong = "__name__" not in names or "" in names or len(set(names)) < len(names)
        for sample in series.samples:
            if wrong or abs(sample.timestamp) > LATEST_MS:
                yield None
            else:
                yield Sample(number, dict(told), bits_of(sample.value), sample.timestamp * 10**6)


def samples_in(rows: TelemetryRows) -> list[Sample]:
    bits = rows.batch["value_double"].to_numpy().view(np.uint64).tolist()
    return [
        Sample(number, dict([("__name__", row["prometheus_name"]), *row["attributes"]]), value, row["timestamp"])
        for number, value, row in zip(rows.requests.tolist(), bits, plain(rows), strict=True)
    ]


@given(sent=st.lists(requests(), max_size=3))
def test_all_samples_come_back(sent: list[Message]) -> None:
    rows = rows_of(*sent)
    assert rows.batch.schema == metrics.SCHEMA
    told = [sample for number, request in enumerate(sent) for sample in samples_of(number, request)]
    expected = [sample for sample in told if sample]
    assert samples_in(rows) == expected
    assert sum(each.records for each in rows.rejected.values()) == len(told) - len(expected)
    for row, sample in zip(plain(rows), expected, strict=True):
        assert row["tenant_id"] == f"tenant-{sample.request}"
        assert row["metric_name"] == row["prometheus_name"]
        assert row["service_name"] == sample.labels.get("job")
        assert row["series_id"] == series_id(sample.labels)
        assert (
            labels(row["prometheus_name"], row["attributes"], translated=row["metadata"] is not None) == sample.labels
        )
        assert row["flags"] == (1 if sample.bits == STALE else 0)
        assert (row["metric_type"], row["value_int"], row["exemplars"]) == ("gauge", None, [])
        assert (resource_of(row), scope_of(row)) == (None, None)


@given(request=requests(exemplars=True, histograms=True), data=st.data())
def test_what_comes_in_one_group_is_as_if_it_came_alone(request: Message, data: st.DataObject) -> None:
    other = data.draw(requests(exemplars=True, histograms=True))
    together = rows_of(request, other, tenants=["t", "t"])
    alone = [rows_of(each, tenants=["t"]) for each in (request, other)]
    assert together.requests.tolist() == [0] * len(alone[0].requests) + [1] * len(alone[1].requests)
    assert _exact(together) == [*_exact(alone[0]), *_exact(alone[1])]
    expected = {number: rows.rejected[0] for number, rows in enumerate(alone) if rows.rejected}
    assert together.rejected == expected
    assert together.timeless == {number for number, rows in enumerate(alone) if rows.timeless}


def _exact(rows: TelemetryRows) -> list[str]:
    """Returns rows as texts, because NaN is not equal to itself."""
    return [repr(row) for row in plain(rows)]


@given(sent=st.lists(requests(exemplars=True, histograms=True), min_size=1, max_size=2))
def test_every_row_is_a_metric_of_otlp(sent: list[Message]) -> None:
    for row in plain(rows_of(*sent)):
        if row["timestamp"] < 0:
            # OTLP has nothing for this.
            continue
        again = metrics.to_message(row)
        assert again.name == row["metric_name"]
        assert len(getattr(again, row["metric_type"]).data_points) == 1


def test_the_same_labels_over_otlp_are_the_same_series() -> None:
    told = {"job": "shop/api", "instance": "7", "method": "GET", "empty": "", "le": "0.5", "__replica__": "a"}
    request = WriteRequest()
    add(request, (1.0, TIME_MS), name="up", **told)
    pairs = [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in told.items()]
    metric = Metric(name="up", gauge=Gauge(data_points=[NumberDataPoint(attributes=pairs)]))
    otlp = metrics.REQUEST(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=[metric])])])
    (ours,), (theirs,) = plain(rows_of(request)), plain(support.rows_of(METRICS, otlp))
    expected = series_id({"__name__": "up", **{name: value for name, value in told.items() if value}})
    assert ours["series_id"] == theirs["series_id"] == expected


@pytest.mark.parametrize("name", ["_private", "http.method", "größe", "1st", "__x", "a-b"])
def test_names_of_labels_and_metrics_stay_as_they_are(name: str) -> None:
    request = WriteRequest()
    series = add(request, (1.0, TIME_MS), name=f"m.{name}")
    series.labels.add(name=name, value="x")
    (row,) = plain(rows_of(request))
    assert (row["metric_name"], row["prometheus_name"], row["attributes"]) == (
        f"m.{name}",
        f"m.{name}",
        [(name, "x")],
    )
    assert row["series_id"] == series_id({"__name__": f"m.{name}", name: "x"})
    assert labels(f"m.{name}", row["attributes"], translated=False) == {"__name__": f"m.{name}", name: "x"}


def test_the_order_of_labels_does_not_matter() -> None:
    request = WriteRequest()
    add(request, (1.0, TIME_MS), name="up", a="1", b="2")
    add(request, (2.0, TIME_MS), b="2", name="up", a="1")
    add(request, (3.0, TIME_MS), b="2", name="up", a="1", empty="")
    add(request, (4.0, TIME_MS), b="1", name="up", a="2")
    ids = rows_of(request).batch["series_id"].to_pylist()
    assert ids[0] == ids[1] == ids[2] != ids[3]


def test_the_end_of_a_series() -> None:
    request = WriteRequest()
    add(request, (1.0, TIME_MS), (STALE_NUMBER, TIME_MS + 1), (float("nan"), TIME_MS + 2), name="up")
    rows = rows_of(request)
    assert rows.batch["flags"].to_pylist() == [0, 1, 0]
    assert rows.batch["value_double"].to_numpy().view(np.uint64)[1] == STALE
    again = metrics.to_message(plain(rows)[1]).gauge.data_points[0]
    assert (again.flags, bits_of(again.as_double)) == (1, STALE)


def test_times() -> None:
    request = WriteRequest()
    add(
        request,
        *((1.0, time) for time in (TIME_MS, -1, 0, LATEST_MS, -LATEST_MS, LATEST_MS + 1, -(2**63))),
        name="up",
    )
    rows = rows_of(WriteRequest(), request)
    assert [row["timestamp"] for row in plain(rows)] == [
        *(TIME_MS * 10**6, -(10**6), 0),
        *(LATEST_MS * 10**6, -LATEST_MS * 10**6),
    ]
    assert [row["ingested_timestamp"] for row in plain(rows)] == [NOW] * 5
    assert rows.timeless == frozenset()
    assert rows.rejected[1] == (2, "2 with a time that is not between the years 1678 and 2262")


def test_wrong_labels_are_rejected_and_the_others_stored() -> None:
    request = WriteRequest()
    add(request, (1.0, TIME_MS), (2.0, TIME_MS), job="x")
    add(request, (3.0, TIME_MS), name="", job="x")
    twice = add(request, (4.0, TIME_MS), name="up", a="1", b="1")
    twice.labels.add(name="a", value="2")
    renamed = add(request, (5.0, TIME_MS), name="up")
    renamed.labels.add(name="__name__", value="down")
    unnamed = add(request, (6.0, TIME_MS), name="up")
    unnamed.labels.add(value="x")
    add(request, name="no samples").labels.add(name="__name__", value="twice")
    add(request, (7.0, TIME_MS), name="up", a="1").labels.add(name="a", value="")
    rows = rows_of(request, WriteRequest())
    assert [(row["value_double"], row["attributes"]) for row in plain(rows)] == [(7.0, [("a", "1")])]
    assert rows.rejected == {
        0: (6, "1 with a label without a name; 3 with no label `__name__`; 2 with the same label twice")
    }


def test_rows_in_the_table_have_the_same_bits() -> None:
    request = WriteRequest()
    add(request, (STALE_NUMBER, TIME_MS), (-0.0, -1), name="up", job="x")
    stored = Mapper(metrics.SCHEMA, base_table_schema(metrics.SCHEMA)).map(rows_of(request).batch, 0, 0)
    assert stored.misfits is None
    file = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([stored.batch]), file)
    rows = list(plain_rows(pq.read_table(pa.BufferReader(file.getvalue()))))
    assert [row["timestamp"] for row in rows] == [TIME_MS * 10**6, -(10**6)]
    assert [bits_of(row["value_double"]) for row in rows] == [STALE, 1 << 63]
    assert [row["metadata"] for row in rows] == [None, None]


def test_a_small_request_that_would_be_more_than_there_is_memory() -> None:
    request = WriteRequest()
    add(request, *[(1.0, TIME_MS)] * 20_000, name="up", text="x" * 100_000)
    with pytest.raises(RequestError, match="Send smaller batches, or shorter attributes and labels"):
        rows_of(request)
    told = WriteRequest()
    told.metadata.add(metric_family_name="up", help="x" * 100_000)
    add(told, *[(1.0, TIME_MS)] * 20_000, name="up")
    with pytest.raises(RequestError, match="Send smaller batches, or shorter attributes and labels"):
        rows_of(told)


# --- exemplars -------------------------------------------------------------------------------------------------


def exemplars_of(row: Row) -> list[float]:
    return [each["value_double"] for each in row["exemplars"]]


def test_exemplars_belong_to_the_sample_before_them() -> None:
    request = WriteRequest()
    add(request, (1.0, TIME_MS), (2.0, TIME_MS + 10), (3.0, TIME_MS + 20), name="up", a="1")
    add(request, (4.0, TIME_MS), name="up", a="2")
    apart = add(request, name="up", a="1")
    for value, time in ((0.1, TIME_MS - 5), (0.2, TIME_MS + 10), (0.3, TIME_MS + 19), (0.4, TIME_MS + 99)):
        apart.exemplars.add(value=value, timestamp=time)
    rows = plain(rows_of(request))
    assert [(row["value_double"], exemplars_of(row)) for row in rows] == [
        (1.0, [0.1]),
        (2.0, [0.2, 0.3]),
        (3.0, [0.4]),
        (4.0, []),
    ]


def test_exemplars_without_a_sample_have_a_row_of_their_own() -> None:
    request = WriteRequest()
    add(request, (1.0, TIME_MS), name="up", a="1")
    add(request, name="up", a="2").exemplars.add(value=0.5, timestamp=TIME_MS + 1)
    other = WriteRequest()
    add(other, name="up", a="1").exemplars.add(value=0.7)
    first, second, third = plain(rows := rows_of(request, other, tenants=["t", "t"]))
    assert rows.requests.tolist() == [0, 0, 1]
    assert rows.timeless == frozenset()
    assert exemplars_of(first) == []
    for row, value, time in ((second, 0.5, (TIME_MS + 1) * 10**6), (third, 0.7, 0)):
        assert (row["value_double"], row["value_int"], row["flags"], row["metric_type"]) == (None, None, 0, "gauge")
        assert (row["timestamp"], exemplars_of(row)) == (time, [value])
    assert second["attributes"] == [("a", "2")]
    assert third["series_id"] == first["series_id"]


def test_what_exemplars_say() -> None:
    trace, span = "0123456789abcdef0123456789abcdef", "fedcba9876543210"
    request = WriteRequest()
    series = add(request, (1.0, TIME_MS), name="up")
    for told in (
        {"trace_id": trace, "span_id": span, "user": "é"},
        {"trace_id": "not hexadecimal", "span_id": "abc"},
        {"trace_id": trace.upper()},
        {},
    ):
        exemplar = series.exemplars.add(value=0.5, timestamp=TIME_MS)
        for name, value in told.items():
            exemplar.labels.add(name=name, value=value)
    (row,) = plain(rows_of(request))
    first, second, upper, third = row["exemplars"]
    assert first == {
        "time_unix_nano": TIME_MS * 10**6,
        "value_double": 0.5,
        "value_int": None,
        "span_id": bytes.fromhex(span),
        "trace_id": bytes.fromhex(trace),
        "attributes": [("user", "é")],
        "attributes_types": None,
    }
    assert (second["trace_id"], second["span_id"]) == (b"", b"")
    assert second["attributes"] == [("trace_id", "not hexadecimal"), ("span_id", "abc")]
    # If it were stored as bytes, it would be lower case when it is read.
    assert (upper["trace_id"], upper["attributes"]) == (b"", [("trace_id", trace.upper())])
    assert (third["trace_id"], third["attributes"]) == (b"", [])
    again = metrics.to_message(row).gauge.data_points[0].exemplars[0]
    assert (again.trace_id.hex(), again.time_unix_nano) == (trace, TIME_MS * 10**6)


def test_exemplars_that_can_never_be_stored() -> None:
    request = WriteRequest()
    series = add(request, (1.0, TIME_MS), name="up")
    series.exemplars.add(value=1.0, timestamp=2**62)
    twice = series.exemplars.add(value=2.0, timestamp=TIME_MS)
    twice.labels.add(name="a", value="1")
    twice.labels.add(name="a", value="2")
    series.exemplars.add(value=3.0, timestamp=TIME_MS)
    add(request, job="x").exemplars.add(value=4.0, timestamp=TIME_MS)
    rows = rows_of(request)
    assert [exemplars_of(row) for row in plain(rows)] == [[3.0]]
    assert rows.rejected[0].records == 3
    assert "1 with an exemplar that has the same label twice" in rows.rejected[0].reason


@given(request=requests(exemplars=True))
def test_no_exemplar_gets_lost(request: Message) -> None:
    rows = rows_of(request)
    kept = [
        (row["prometheus_name"], row["series_id"], bits_of(each["value_double"]))
        for row in plain(rows)
        for each in row["exemplars"]
    ]
    records = sum(len(series.samples) + len(series.exemplars) for series in request.timeseries)
    lost = rows.rejected[0].records if rows.rejected else 0
    values = [row for row in plain(rows) if row["value_double"] is not None]
    assert len(kept) + len(values) + lost == records
    assert all(row["exemplars"] for row in plain(rows) if row["value_double"] is None)
    sent = [
        (told["__name__"], series_id(told), bits_of(exemplar.value))
        for series in request.timeseries
        if (told := {label.name: label.value for label in series.labels if label.value}).get("__name__")
        for exemplar in series.exemplars
    ]
    assert all(sent.count(each) >= kept.count(each) for each in kept)


# --- nothing ---------------------------------------------------------------------------------------------------


def test_no_requests_and_no_samples() -> None:
    empty = WriteRequest()
    add(empty, name="up")
    for rows in (rows_of(), rows_of(WriteRequest()), rows_of(empty, WriteRequest())):
        assert rows.batch.schema == metrics.SCHEMA
        assert (rows.batch.num_rows, rows.rejected, rows.timeless) == (0, {}, frozenset())
