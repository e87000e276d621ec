"""Requests of OTLP decoded, many at a time.

The decoder into columns refuses what is no message, and text that is no UTF-8, but with it all that it was given.
Which of them it was, the Protobuf runtime can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
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


def decode(kind: type[Message], bodies: Sequence[bytes | memoryview] | pa.Array) -> pa.RecordBatch:
    """One row for each body. Raises `ValueError` if one of them is no message of this kind."""
    column = bodies if isinstance(bodies, pa.Array) else column_of(bodies)
    return handler_of(kind.DESCRIPTOR).array_to_record_batch(column)


def column_of(bodies: Sequence[bytes | memoryview]) -> pa.Array:
    """With one copy of them, or none: Arrow would make room bit by bit, and copy what it has each time."""
    ends = np.fromiter(accumulate(map(len, bodies), initial=0), np.int32, len(bodies) + 1)
    whole = bodies[0] if len(bodies) == 1 else b"".join(bodies)
    return pa.Array.from_buffers(pa.binary(), len(bodies), [None, pa.py_buffer(ends), pa.py_buffer(whole)])
