"""Describes a kind of requests: everything needed to turn them into rows of a topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import Message

from frazil.formats.otlp.raw import RequestForm
from frazil.formats.telemetry.rows import Arrival, TelemetryRows


@dataclass(frozen=True)
class RequestKind:
    topic: str
    schema: pa.Schema
    """The schema of the topic."""
    message: type[Message]
    """The Protobuf message of the bodies."""
    from_json: Callable[[bytes], bytes]
    """Translates a body in JSON to Protobuf. Raises `RequestError`."""
    to_rows: Callable[[pa.RecordBatch, Arrival], TelemetryRows]
    """Turns decoded bodies into rows."""
    storage_form: RequestForm | None = None
    """The form in which plain requests are stored, if that is quicker than converting them to rows."""
    tally: Callable[[TelemetryRows, int], Sequence[object]] | None = None
    """Counts what is stored of each of so many requests, if that is part of the answer."""
