"""Messages of Protobuf decoded into columns, many at a time.

The decoder (`ptars`) is quick, and trusts what it is given: groups within groups overflow its stack, which ends the
process, and a length that is negative makes it panic. So the Protobuf runtime reads whatever a stranger sent before
the decoder does (`check`). It refuses both, lengths beyond the message, and text that is no UTF-8; it goes no deeper
than 100 messages or groups within each other. What is within a message has then been read as well, also where the
decoder is told that it is bytes (`descriptors`).
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
    """The message. Raises `RequestError` for what is none of this kind."""
    try:
        return kind.FromString(body)
    except DecodeError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise RequestError(f"The body is no {kind.DESCRIPTOR.name}: {reason}.") from error


def decode(kind: type[Message], bodies: Sequence[bytes | memoryview] | pa.Array) -> pa.RecordBatch:
    """One row for each body. They were checked; raises `ValueError` if the decoder cannot read one all the same."""
    column = bodies if isinstance(bodies, pa.Array) else column_of(bodies)
    with faults_as_errors():
        return handler_of(kind.DESCRIPTOR).array_to_record_batch(column)


def column_of(bodies: Sequence[bytes | memoryview]) -> pa.Array:
    """With one copy of them, or none: Arrow would make room bit by bit, and copy what it has each time."""
    ends = np.fromiter(accumulate(map(len, bodies), initial=0), np.int32, len(bodies) + 1)
    whole = bodies[0] if len(bodies) == 1 else b"".join(bodies)
    return pa.Array.from_buffers(pa.binary(), len(bodies), [None, pa.py_buffer(ends), pa.py_buffer(whole)])
