"""What tests beside this share."""

from __future__ import annotations

from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs, ScopeLogs

from frazil.formats.otlp import logs
from tests.formats.telemetry.strategies import log_records, resources, scopes, texts

scope_logs = st.builds(
    ScopeLogs, scope=st.none() | scopes, log_records=st.lists(log_records, max_size=3), schema_url=texts
)


resource_logs = st.builds(
    ResourceLogs, resource=st.none() | resources, scope_logs=st.lists(scope_logs, max_size=2), schema_url=texts
)


requests = st.builds(logs.REQUEST, resource_logs=st.lists(resource_logs, max_size=2))
