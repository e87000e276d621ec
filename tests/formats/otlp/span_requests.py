"""What tests beside this share."""

from __future__ import annotations

from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

from frazil.formats.otlp import spans
from tests.formats.telemetry import strategies
from tests.formats.telemetry.strategies import resources, scopes, texts

scope_spans = st.builds(
    ScopeSpans, scope=st.none() | scopes, spans=st.lists(strategies.spans, max_size=3), schema_url=texts
)


resource_spans = st.builds(
    ResourceSpans, resource=st.none() | resources, scope_spans=st.lists(scope_spans, max_size=2), schema_url=texts
)


requests = st.builds(spans.REQUEST, resource_spans=st.lists(resource_spans, max_size=2))
