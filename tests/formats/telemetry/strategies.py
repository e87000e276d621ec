"""Generates OpenTelemetry messages with everything that may be in them."""

from __future__ import annotations

from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    EntityRef,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

LATEST = 2**63 - 1

texts = st.text(st.characters(codec="utf-8"), max_size=8)
counts = st.integers(0, 2**32 - 1)
times = st.integers(1, LATEST)
some_times = st.just(0) | times
trace_ids = st.just(b"") | st.binary(min_size=16, max_size=16).filter(any)
span_ids = st.just(b"") | st.binary(min_size=8, max_size=8).filter(any)


# These refer to strings in a table that only profiles have.
indices = st.integers(0, 2) | st.integers(-(2**31), 2**31 - 1)


def _pairs(values: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[KeyValue]:
    """Generates attributes with references. Some keys that are references have a text too, which may repeat."""
    maybe = st.none() | values
    return st.one_of(
        st.builds(KeyValue, key=texts, value=maybe),
        st.builds(KeyValue, key_strindex=indices, value=maybe),
        st.builds(KeyValue, key=st.sampled_from(["a", "b"]), key_strindex=indices, value=maybe),
    )


def _any_values(inner: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    lists = st.lists(inner, max_size=3).map(lambda values: ArrayValue(values=values))
    maps = st.lists(_pairs(inner), max_size=3).map(lambda values: KeyValueList(values=values))
    return st.one_of(st.builds(AnyValue, array_value=lists), st.builds(AnyValue, kvlist_value=maps))


any_values: st.SearchStrategy[AnyValue] = st.recursive(
    st.one_of(
        st.builds(AnyValue),
        st.builds(AnyValue, string_value=texts),
        st.builds(AnyValue, bool_value=st.booleans()),
        st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
        # NaN is not equal to itself, and has a test of its own.
        st.builds(AnyValue, double_value=st.floats(allow_nan=False)),
        st.builds(AnyValue, bytes_value=st.binary(max_size=8)),
        st.builds(AnyValue, string_value_strindex=indices),
    ),
    _any_values,
    max_leaves=6,
)


def _each_key_once(pairs: list[KeyValue]) -> list[KeyValue]:
    """Returns the attributes that must come back. Of equal keys the last one counts, but where there are references,
    all are kept."""
    if any(pair.key_strindex or pair.value.HasField("string_value_strindex") for pair in pairs):
        return pairs
    return list({pair.key: pair for pair in pairs}.values())


attributes = st.lists(_pairs(any_values), max_size=4).map(_each_key_once)

resources = st.builds(
    Resource,
    attributes=attributes,
    dropped_attributes_count=counts,
    entity_refs=st.lists(
        st.builds(
            EntityRef,
            schema_url=texts,
            type=texts,
            id_keys=st.lists(texts, max_size=2),
            description_keys=st.lists(texts, max_size=2),
        ),
        max_size=2,
    ),
)

scopes = st.builds(
    InstrumentationScope, name=texts, version=texts, attributes=attributes, dropped_attributes_count=counts
)

log_records = st.builds(
    LogRecord,
    time_unix_nano=times,
    observed_time_unix_nano=some_times,
    severity_number=st.integers(0, 24),
    severity_text=texts,
    body=st.none() | any_values,
    attributes=attributes,
    dropped_attributes_count=counts,
    flags=counts,
    trace_id=trace_ids,
    span_id=span_ids,
    event_name=texts,
)

# Tables have no unsigned numbers, so the whole range of 64 bits is tried.
any_times = st.integers(0, 2**64 - 1)

span_events = st.builds(
    Span.Event, time_unix_nano=any_times, name=texts, attributes=attributes, dropped_attributes_count=counts
)

span_links = st.builds(
    Span.Link,
    trace_id=trace_ids | st.binary(max_size=20),
    span_id=span_ids | st.binary(max_size=10),
    trace_state=texts,
    attributes=attributes,
    dropped_attributes_count=counts,
    flags=counts,
)

spans = st.builds(
    Span,
    trace_id=trace_ids,
    span_id=span_ids,
    parent_span_id=span_ids,
    trace_state=texts,
    flags=counts,
    name=texts,
    kind=st.integers(0, 5),
    start_time_unix_nano=times,
    end_time_unix_nano=some_times,
    attributes=attributes,
    dropped_attributes_count=counts,
    events=st.lists(span_events, max_size=2),
    dropped_events_count=counts,
    links=st.lists(span_links, max_size=2),
    dropped_links_count=counts,
    status=st.none() | st.builds(Status, message=texts, code=st.integers(0, 2)),
)
