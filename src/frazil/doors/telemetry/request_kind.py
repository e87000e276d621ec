"""Kinds of requests, in all that is needed to turn them into rows of a topic."""

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
    """Of the topic."""
    message: type[Message]
    """What bodies are, in Protobuf."""
    from_json: Callable[[bytes], bytes]
    """The same of a body in JSON. Raises `RequestError`."""
    to_rows: Callable[[pa.RecordBatch, Arrival], TelemetryRows]
    """Of decoded bodies."""
    storage_form: RequestForm | None = None
    """In which small ones are stored, if that is quicker than to make rows of them."""
    tally: Callable[[TelemetryRows, int], Sequence[object]] | None = None
    """What is told of the rows that are stored of each of so many requests, if that is part of the answer."""
