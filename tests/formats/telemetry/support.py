"""Converts requests to rows as the doors do."""

from __future__ import annotations

from google.protobuf.message import Message

from frazil.doors.otlp.signals import Signal
from frazil.formats.telemetry.message_decoding import check, decode
from frazil.formats.telemetry.rows import Arrival, TelemetryRows

NOW = 1_700_000_000_123_456_789


def rows_of(signal: Signal, *requests: Message | bytes) -> TelemetryRows:
    """Converts requests, each of a tenant of its own: `tenant-0`, `tenant-1` and so on."""
    bodies = [each if isinstance(each, bytes) else each.SerializeToString() for each in requests]
    for body in bodies:
        check(signal.requests.message, body)
    tenants = [f"tenant-{number}" for number in range(len(bodies))]
    rows = signal.requests.to_rows(decode(signal.requests.message, bodies), Arrival(tenants, NOW))
    rows.batch.validate(full=True)
    return rows
