"""Rows grouped by where they came from."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from frazil.doors.otlp.signals import SPANS
from frazil.formats.otlp import spans
from frazil.formats.otlp.grouping import spans_data
from frazil.formats.telemetry.messaging import plain_rows
from tests.formats.telemetry import strategies
from tests.formats.telemetry.strategies import resources, scopes
from tests.formats.telemetry.support import rows_of

urls = st.sampled_from(["", "https://a"])


def levels(
    some_resources: list[ResourceSpans], some_scopes: list[ScopeSpans]
) -> st.SearchStrategy[list[tuple[ResourceSpans, ScopeSpans, Span]]]:
    """Spans from few resources and scopes, mixed."""
    return st.lists(
        st.tuples(st.sampled_from(some_resources), st.sampled_from(some_scopes), strategies.spans), max_size=6
    )


mixed = st.tuples(
    st.lists(st.builds(ResourceSpans, resource=st.none() | resources, schema_url=urls), min_size=1, max_size=3),
    st.lists(st.builds(ScopeSpans, scope=st.none() | scopes, schema_url=urls), min_size=1, max_size=3),
).flatmap(lambda both: levels(*both))


def flat(data: TracesData | spans.REQUEST) -> list[tuple[bytes, bytes, bytes]]:
    """Each span with all that is said of its resource and of its scope."""
    return [
        (
            ResourceSpans(
                resource=of_resource.resource if of_resource.HasField("resource") else None,
                schema_url=of_resource.schema_url,
            ).SerializeToString(),
            ScopeSpans(
                scope=of_scope.scope if of_scope.HasField("scope") else None, schema_url=of_scope.schema_url
            ).SerializeToString(),
            span.SerializeToString(),
        )
        for of_resource in data.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


@given(given=mixed)
def test_each_resource_and_each_scope_is_there_once(given: list[tuple[ResourceSpans, ScopeSpans, Span]]) -> None:
    request = spans.REQUEST()
    for of_resource, of_scope, span in given:
        resource_level = request.resource_spans.add()
        resource_level.CopyFrom(of_resource)
        scope_level = resource_level.scope_spans.add()
        scope_level.CopyFrom(of_scope)
        scope_level.spans.append(span)
    data = spans_data(plain_rows(pa.Table.from_batches([rows_of(SPANS, request).batch])))
    expected, found = flat(request), flat(data)
    assert Counter(found) == Counter(expected)
    firsts = list(dict.fromkeys(resource for resource, _, _ in expected))
    assert list(dict.fromkeys(resource for resource, _, _ in found)) == firsts
    assert len(data.resource_spans) == len(firsts)
    groups = [of_scope for of_resource in data.resource_spans for of_scope in of_resource.scope_spans]
    assert len(groups) == len({(resource, scope) for resource, scope, _ in expected})


def test_nothing_is_empty_data() -> None:
    assert spans_data([]) == TracesData()


def test_spans_keep_their_order() -> None:
    request = spans.REQUEST()
    for number, service in enumerate("abba"):
        level = request.resource_spans.add()
        level.resource.attributes.add(key="service.name").value.string_value = service
        level.scope_spans.add().spans.add(name=f"{number}")
    data = spans_data(plain_rows(pa.Table.from_batches([rows_of(SPANS, request).batch])))
    names = [[span.name for span in level.scope_spans[0].spans] for level in data.resource_spans]
    assert names == [["0", "3"], ["1", "2"]]
