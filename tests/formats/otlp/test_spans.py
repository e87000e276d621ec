"""OTLP's spans become rows of a table, and nothing is lost."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from frazil.doors.otlp.signals import SPANS
from frazil.formats.otlp import spans
from frazil.formats.telemetry.row_messages import Row, plain_rows, resource_of, scope_of
from frazil.formats.telemetry.rows import TelemetryRows
from frazil.lake.mapping.mapper import Mapper
from frazil.lake.schema.table_schema import base_table_schema
from tests.examples import examples
from tests.formats.otlp.span_requests import requests
from tests.formats.telemetry import strategies
from tests.formats.telemetry.strategies import LATEST
from tests.formats.telemetry.support import NOW, rows_of


def of_spans(*given: Span) -> TelemetryRows:
    return rows_of(SPANS, spans.REQUEST(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=given)])]))


def row_of(span: Span) -> Row:
    (row,) = plain_rows(pa.Table.from_batches([of_spans(span).batch]))
    return row


@given(given=st.lists(requests, min_size=1, max_size=3))
def test_all_of_it_comes_back(given: list[spans.REQUEST]) -> None:
    rows = rows_of(SPANS, *given)
    batch = rows.batch
    expected = [
        (number, of_resource, of_scope, span)
        for number, request in enumerate(given)
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]
    assert rows.invalid_ids == 0
    assert batch.schema == spans.SCHEMA
    batch.validate(full=True)
    found = list(plain_rows(pa.Table.from_batches([batch])))
    assert rows.requests.tolist() == [number for number, *_ in expected]
    for row, (number, of_resource, of_scope, span) in zip(found, expected, strict=True):
        assert row["tenant_id"] == f"tenant-{number}"
        assert row["ingested_timestamp"] == NOW
        assert spans.to_message(row) == span
        assert resource_of(row) == (of_resource.resource if of_resource.HasField("resource") else None)
        assert scope_of(row) == (of_scope.scope if of_scope.HasField("scope") else None)
        assert row["resource_schema_url"] == of_resource.schema_url
        assert row["scope_schema_url"] == of_scope.schema_url


@settings(max_examples=examples(30))
@given(given=st.lists(strategies.spans, min_size=1, max_size=3))
def test_a_table_keeps_all_of_it(given: list[Span]) -> None:
    mapped = Mapper(spans.SCHEMA, base_table_schema(spans.SCHEMA)).map(of_spans(*given).batch, 0, 0)
    assert mapped.misfits is None
    file = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([mapped.batch]), file)
    found = pq.read_table(pa.BufferReader(file.getvalue()))
    assert [spans.to_message(row) for row in plain_rows(found)] == given


@pytest.mark.parametrize(
    ("start", "end", "timestamp", "end_timestamp", "duration"),
    [
        (5, 7, 5, 7, 2),
        (5, 5, 5, 5, 0),
        (1, LATEST, 1, LATEST, LATEST - 1),
        (7, 5, 7, 5, None),
        (0, 7, NOW, 7, None),
        (5, 0, 5, None, None),
        (0, 0, NOW, None, None),
        (5, LATEST + 1, 5, None, None),
        (LATEST + 1, LATEST + 2, NOW, None, None),
    ],
)
def test_times(start: int, end: int, timestamp: int, end_timestamp: int | None, duration: int | None) -> None:
    row = row_of(Span(start_time_unix_nano=start, end_time_unix_nano=end))
    assert (row["timestamp"], row["end_timestamp"]) == (timestamp, end_timestamp)
    assert row["duration_nanos"] == duration


def test_requests_with_spans_that_have_no_time_are_told() -> None:
    started, ended = Span(start_time_unix_nano=1), Span(end_time_unix_nano=2)
    given = [[started, ended], [started, Span()], [], [Span(), Span()]]
    requests = [spans.REQUEST(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=some)])]) for some in given]
    assert rows_of(SPANS, *requests).timeless == {1, 3}


@pytest.mark.parametrize("time", [0, 1, LATEST, LATEST + 1, 2**64 - 1])
def test_an_event_has_any_time(time: int) -> None:
    span = Span(start_time_unix_nano=1, events=[Span.Event(time_unix_nano=time)])
    row = row_of(span)
    assert row["events"][0]["time_unix_nano"] == (time if time <= LATEST else time - 2**64)
    assert spans.to_message(row) == span


def test_no_status_is_not_an_unset_one() -> None:
    expected = [(None, None), (0, ""), (2, "broken")]
    given = [Span(), Span(status=Status()), Span(status=Status(code=Status.STATUS_CODE_ERROR, message="broken"))]
    found = of_spans(*given).batch.to_pylist()
    assert [(row["status_code"], row["status_message"]) for row in found] == expected


@pytest.mark.parametrize("kind", [6, -1, 2**31 - 1])
def test_kinds_that_are_not_known_yet(kind: int) -> None:
    span = Span(start_time_unix_nano=1, kind=kind, status=Status(code=kind))  # type: ignore[arg-type]
    row = row_of(span)
    assert (row["kind"], row["status_code"]) == (kind, kind)
    assert spans.to_message(row) == span


@pytest.mark.parametrize("name", ["trace_id", "span_id", "parent_span_id"])
@pytest.mark.parametrize("wrong", [b"\0" * 16, b"\0" * 8, b"short", b"x" * 17])
def test_invalid_ids_are_null_and_counted(name: str, wrong: bytes) -> None:
    valid = {"trace_id": b"0123456789abcdef", "span_id": b"12345678", "parent_span_id": b"87654321"}
    span = Span(trace_id=valid["trace_id"], span_id=valid["span_id"], parent_span_id=valid["parent_span_id"])
    other = Span()
    other.CopyFrom(span)
    setattr(other, name, wrong)
    rows = of_spans(other, span, Span())
    changed, unchanged, without = rows.batch.select(list(valid)).to_pylist()
    assert rows.invalid_ids == 1
    assert changed == {**valid, name: None}
    assert unchanged == valid
    assert without == dict.fromkeys(valid)


def test_ids_of_links_are_any() -> None:
    links = [Span.Link(trace_id=b"\0" * 16, span_id=b"short"), Span.Link(trace_id=b"0123456789abcdef")]
    rows = of_spans(Span(links=links))
    (row,) = rows.batch.to_pylist()
    assert rows.invalid_ids == 0
    assert [(link["trace_id"], link["span_id"]) for link in row["links"]] == [
        (b"\0" * 16, b"short"),
        (b"0123456789abcdef", b""),
    ]


def test_the_last_of_several_attributes_of_one_name_counts() -> None:
    pairs = [
        KeyValue(key=key, value=AnyValue(int_value=value))
        for key, value in [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)]
    ]
    span = Span(attributes=pairs, events=[Span.Event(), Span.Event(attributes=pairs)])
    span.links.add(attributes=pairs)
    for row in of_spans(Span(), span, span).batch.to_pylist()[1:]:
        for place in (row, row["events"][1], row["links"][0]):
            assert place["attributes"] == [("a", "3"), ("c", "4"), ("b", "5")]
            assert place["attributes_types"] == "iii"
        assert row["events"][0]["attributes"] == []


def test_events_and_links_stay_with_their_spans() -> None:
    given = [
        Span(events=[Span.Event(name="a"), Span.Event(name="b")]),
        Span(links=[Span.Link(trace_state="x")]),
        Span(),
        Span(events=[Span.Event(name="c")], links=[Span.Link(trace_state="y"), Span.Link(trace_state="z")]),
    ]
    found = of_spans(*given).batch.to_pylist()
    assert [[event["name"] for event in row["events"]] for row in found] == [["a", "b"], [], [], ["c"]]
    assert [[link["trace_state"] for link in row["links"]] for row in found] == [[], ["x"], [], ["y", "z"]]
