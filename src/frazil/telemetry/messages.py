"""Requests of OTLP decoded, many at a time.

The decoder into columns refuses what is no message, and text that is no UTF-8, but with it all that it was given.
Which of them it was, the Protobuf runtime can tell.
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
    """One row for each body. Raises `ValueError` if one of them is no message of this kind."""
    return handler_of(kind.DESCRIPTOR).array_to_record_batch(pa.array(bodies, pa.binary()))
