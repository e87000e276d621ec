"""What tests beside this share."""

from __future__ import annotations

from google.protobuf.message import Message
from hypothesis import strategies as st

from frazil.doors.otlp.signals import LOGS, METRICS, SPANS, Signal
from tests.formats.otlp.log_requests import requests as logs_requests
from tests.formats.otlp.span_requests import requests as spans_requests
from tests.formats.telemetry.metric_strategies import requests as metrics_requests

REQUESTS: dict[Signal, st.SearchStrategy[Message]] = {
    LOGS: logs_requests,
    SPANS: spans_requests,
    METRICS: metrics_requests,
}
