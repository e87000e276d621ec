"""Decodes Protobuf messages into columns, many at a time.

The decoder (`ptars`) is fast, and trusts what it is given: nested groups overflow its stack, which ends the process,
and a negative length makes it panic. So the Protobuf runtime parses whatever a client sent before the decoder does
(`check`). It refuses both, lengths beyond the message, and text that is not UTF-8, and does not descend further than
100 nested messages or groups. Nested messages have then been parsed as well, also those that the decoder treats as
bytes (`descriptors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from frazil.errors import RequestError
from frazil.formats.telemetry.descriptors import handler_of
from frazil.native import faults_as_errors


def check(kind: type[Message], body: bytes) -> Message:
    """Parses a body. Raises `RequestError` if it is not a message of this kind."""
    try:
        return kind.FromString(body)
    except DecodeError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise RequestError(f"The body is no {kind.DESCRIPTOR.name}: {reason}.") from error


def decode(kind: type[Message], bodies: Sequence[bytes | memoryview] | pa.Array) -> pa.RecordBatch:
    """Decodes one row for each body. They have been checked; raises `ValueError` if the decoder cannot read one all
    the same."""
    column = bodies if isinstance(bodies, pa.Array) else column_of(bodies)
    with faults_as_errors():
        return handler_of(kind.DESCRIPTOR).array_to_record_batch(column)


def column_of(bodies: Sequence[bytes | memoryview]) -> pa.Array:
    """Returns a binary column of the bodies, with one copy of them or none. Arrow would grow its buffer step by step,
    and copy each time."""
    ends = np.fromiter(accumulate(map(len, bodies), initial=0), np.int32, len(bodies) + 1)
    whole = bodies[0] if len(bodies) == 1 else b"".join(bodies)
    return pa.Array.from_buffers(pa.binary(), len(bodies), [None, pa.py_buffer(ends), pa.py_buffer(whole)])
