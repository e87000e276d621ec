"""Defines the messages between the serving process and a query process, and how they go through a socket.

A query process has one socket for each query that it answers at a time, so that a slow client holds back its own
answer only, and one more socket for what concerns the whole process.
"""

from __future__ import annotations

import pickle
import socket
import struct
from asyncio import IncompleteReadError, StreamReader
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from frazil.config.model import Config
from frazil.engine.interface import QueryRequest, QueryStatistics
from frazil.engine.limits import QueryLimits
from frazil.errors import FrazilError

PIECE_BYTES = 256 * 1024
"""No message of an answer's body is larger, so that passing it on takes the event loop less than a millisecond."""

_HEADER = struct.Struct("!BQ")


class Kind(IntEnum):
    ASK = 1
    """Has a `Question`."""
    CANCEL = 2
    """Nobody wants the answer any more. The process still ends it, with `END` or `FAILED`."""
    BEGIN = 3
    """Has a `Beginning`."""
    PIECE = 4
    """Has bytes of the body."""
    END = 5
    """Has `QueryStatistics`. The answer is whole."""
    FAILED = 6
    """Has a `Failure`."""
    START = 7
    """Has a `Start`."""
    READY = 8
    TAILS_WANTED = 9
    """Has the names of topics whose tails are in the memory of the serving process."""
    TAILS = 10
    """Has the tails without their records, which follow, each as a `PIECE`."""


class Start(NamedTuple):
    config: Config
    warm: tuple[str, ...]
    """Names functions that prepare the process for its first query, as `package.module:function`."""


class Question(NamedTuple):
    answer: str
    """Names the function that answers, as `package.module:function`."""
    request: QueryRequest
    limits: QueryLimits
    queue_seconds: float


class Beginning(NamedTuple):
    status: int
    headers: Mapping[str, str]


class Failure(NamedTuple):
    error: FrazilError
    statistics: QueryStatistics


Payload = Question | Beginning | Failure | QueryStatistics | Start | tuple[str, ...]


class Ended(Exception):
    """Raised when the process on the other side has gone."""


def packed(kind: Kind, payload: Payload | None = None) -> bytes:
    body = b"" if payload is None else pickle.dumps(payload, pickle.HIGHEST_PROTOCOL)
    return header(kind, len(body)) + body


def header(kind: Kind, size: int) -> bytes:
    return _HEADER.pack(kind, size)


def unpacked(body: bytes | bytearray) -> Any:
    return pickle.loads(body)


def receive(connection: socket.socket) -> tuple[Kind, bytearray]:
    """Waits for a message. Raises `Ended` when none will come."""
    kind, size = _HEADER.unpack(_exactly(connection, _HEADER.size))
    return Kind(kind), _exactly(connection, size)


class MessageReader:
    """Receives messages in an event loop. A wait that is cancelled loses nothing: the next one goes on."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader
        self._begun: tuple[Kind, int] | None = None

    async def receive(self) -> tuple[Kind, bytes]:
        """Waits for a message. Raises `Ended` when none will come."""
        try:
            if self._begun is None:
                kind, size = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
                self._begun = Kind(kind), size
            kind, size = self._begun
            body = await self._reader.readexactly(size)
        except (IncompleteReadError, ConnectionError) as error:
            raise Ended from error
        self._begun = None
        return kind, body


def _exactly(connection: socket.socket, size: int) -> bytearray:
    found = bytearray(size)
    view = memoryview(found)
    at = 0
    while at < size:
        try:
            count = connection.recv_into(view[at:])
        except OSError as error:
            raise Ended from error
        if not count:
            raise Ended
        at += count
    return found
