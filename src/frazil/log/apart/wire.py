"""Values between two processes on one machine.

Buffers of Arrow go as they are, straight from where they lie: within a pickle they would be copied, and nobody else
would run Python meanwhile.
"""

from __future__ import annotations

import pickle
import socket
import struct
from itertools import accumulate
from typing import Any

import pyarrow as pa

_HEAD = struct.Struct("<QQ")
"""Bytes of the pickle, and how many buffers come after it."""
_ALIGN = 64
"""Where buffers begin, as Arrow likes it."""
_MOST_PARTS = 512
"""Of one call of the system, which takes 1,024."""


def send(connection: socket.socket, value: object) -> None:
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in views]
    parts: list[bytes | memoryview] = [
        _HEAD.pack(len(pickled), len(views)),
        struct.pack(f"<{len(sizes)}Q", *sizes),
        pickled,
    ]
    for view in views:
        parts += (view, bytes(-view.nbytes % _ALIGN))
    _send_all(connection, [memoryview(part) for part in parts if len(part)])


def receive(connection: socket.socket) -> Any:
    """Raises `EOFError` when the other one has gone. Only for what this program has sent: pickles can do anything."""
    size, count = _HEAD.unpack(_read(connection, _HEAD.size))
    sizes = struct.unpack(f"<{count}Q", _read(connection, 8 * count))
    pickled = _read(connection, size)
    ends = list(accumulate((size + -size % _ALIGN for size in sizes), initial=0))
    whole = _read(connection, ends[-1])
    return pickle.loads(pickled, buffers=[whole.slice(start, size) for start, size in zip(ends, sizes, strict=False)])


def _send_all(connection: socket.socket, parts: list[memoryview]) -> None:
    first = 0
    while first < len(parts):
        sent = connection.sendmsg(parts[first : first + _MOST_PARTS])
        while first < len(parts) and sent >= parts[first].nbytes:
            sent -= parts[first].nbytes
            first += 1
        if sent:
            parts[first] = parts[first][sent:]


def _read(connection: socket.socket, size: int) -> pa.Buffer:
    buffer = pa.allocate_buffer(size)
    view, come = memoryview(buffer), 0
    while come < size:
        more = connection.recv_into(view[come:], 0, socket.MSG_WAITALL)
        if not more:
            raise EOFError
        come += more
    return buffer
