"""Makes replies of what Loki's endpoints answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from frazil.engine.interface import Reply
from frazil.web.answers import COMPLETE

JSON = "application/json; charset=UTF-8"
TEXT = "text/plain; charset=utf-8"
INCOMPLETE = "The newest lines may be missing: they are on the machine that takes them in, and not in the store yet."
_PIECE_BYTES = 64 * 1024


def json_reply(body: Iterable[bytes], status: int = 200, *, complete: bool = True) -> Reply:
    """`complete` is false if the newest lines may be missing."""
    headers = {"content-type": JSON} if complete else {"content-type": JSON, COMPLETE: "false"}
    return Reply(status, headers, gathered(body))


def gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Makes larger pieces of small ones, so that a small answer is sent as a whole."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= _PIECE_BYTES:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


def object_reply(value: Any, status: int = 200, *, complete: bool = True) -> Reply:
    return json_reply([orjson.dumps(value)], status, complete=complete)


def success(data: Any, *, complete: bool = True) -> Reply:
    """Returns the data in Loki's envelope."""
    return object_reply({"status": "success", "data": data}, complete=complete)
