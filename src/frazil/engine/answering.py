"""Runs the function that answers a query, and sends what it returns."""

from __future__ import annotations

import importlib
import pickle
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from frazil.engine.interface import Answer, Reply
from frazil.engine.messages import (
    PIECE_BYTES,
    Beginning,
    Ended,
    Failure,
    Kind,
    Question,
    header,
    packed,
)
from frazil.engine.running_query import RunningQuery
from frazil.errors import FrazilError, QueryTooLarge
from frazil.web.answers import COMPLETE

_GATHER_BYTES = 64 * 1024
_GATHER_SECONDS = 0.02
"""Small pieces of a body are gathered for this long, because each message costs both processes some time."""


class Answering:
    """Answers one query, through one socket."""

    def __init__(self, connection: socket.socket, query: RunningQuery) -> None:
        self._connection = connection
        self._query = query
        self._waiting = bytearray()
        self._sent_at = time.monotonic()

    def answer(self, question: Question) -> None:
        """Sends the answer, or the error that prevented it. Raises `Ended` if the serving process has gone."""
        try:
            self._query.check()
            answer: Answer = named(question.answer)
            self._send_reply(answer(question.request, self._query))
            self._query.count_scans()
            last = packed(Kind.END, self._query.statistics)
        except Ended:
            raise
        except BaseException as error:  # noqa: BLE001 - the serving process must learn of whatever it is
            last = packed(Kind.FAILED, Failure(_to_send(error), self._query.statistics))
        self._query.ended = True
        self._waiting += last
        self._flush()

    def _send_reply(self, reply: Reply) -> None:
        headers = dict(reply.headers)
        self._query.count_scans()
        if not self._query.statistics.complete:
            headers[COMPLETE] = "false"
        self._waiting += packed(Kind.BEGIN, Beginning(reply.status, headers))
        self._sent_at = time.monotonic()
        pieces = reply.body
        try:
            for piece in pieces:
                self._send_piece(memoryview(piece))
                self._query.check()
        finally:
            _close(pieces)

    def _send_piece(self, piece: memoryview) -> None:
        for at in range(0, len(piece), PIECE_BYTES):
            part = piece[at : at + PIECE_BYTES]
            self._waiting += header(Kind.PIECE, len(part))
            self._waiting += part
            if len(self._waiting) >= _GATHER_BYTES or time.monotonic() - self._sent_at >= _GATHER_SECONDS:
                self._flush()

    def _flush(self) -> None:
        try:
            self._connection.sendall(self._waiting)
        except OSError as error:
            raise Ended from error
        self._waiting.clear()
        self._sent_at = time.monotonic()


def named(name: str) -> Callable[..., Any]:
    """Loads the function `package.module:function`."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _close(pieces: Iterable[bytes]) -> None:
    """Ends a generator that is not at its end, so that it releases what it has now and not later."""
    if (close := getattr(pieces, "close", None)) is not None:
        close()


def _to_send(error: BaseException) -> FrazilError:
    if isinstance(error, MemoryError):
        return QueryTooLarge(f"The answer is too large: {error}")
    if isinstance(error, FrazilError):
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - an error that does not survive the way is told by its text
            return FrazilError(str(error))
        return error
    return FrazilError(f"The query failed: {type(error).__name__}: {error}")
