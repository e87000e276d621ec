"""Makes replies of what Loki's endpoints answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from frazil.engine.interface import Reply

JSON = "application/json; charset=UTF-8"
TEXT = "text/plain; charset=utf-8"
_PIECE_BYTES = 64 * 1024


def json_reply(body: Iterable[bytes], status: int = 200) -> Reply:
    return Reply(status, {"content-type": JSON}, gathered(body))


def gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Makes larger pieces of small ones, so that a small answer is sent as a whole."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= _PIECE_BYTES:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


def object_reply(value: Any, status: int = 200) -> Reply:
    return json_reply([orjson.dumps(value)], status)


def success(data: Any) -> Reply:
    """Returns the data in Loki's envelope."""
    return object_reply({"status": "success", "data": data})
