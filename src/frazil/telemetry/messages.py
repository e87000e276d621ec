"""Requests of OTLP decoded, many at a time.

Each is first read by the Protobuf runtime, which is quick, and refuses what the decoder into columns would trip over:
bytes that are no message, text that is no UTF-8, nesting without end. So one bad request never spoils others.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from frazil.errors import RequestError
from frazil.telemetry.descriptors import handler_of


def check(kind: type[Message], body: bytes) -> None:
    """Raises `RequestError` for what is no message of this kind."""
    try:
        kind.FromString(body)
    except DecodeError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise RequestError(f"The body is no {kind.DESCRIPTOR.name}: {reason}.") from error


def decode(kind: type[Message], bodies: Sequence[bytes] | pa.Array) -> pa.RecordBatch:
    """One row for each body, all of which were checked."""
    return handler_of(kind.DESCRIPTOR).array_to_record_batch(pa.array(bodies, pa.binary()))
