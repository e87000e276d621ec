"""Reads bodies of HTTP requests that arrive slowly, or are refused before they are complete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from frazil.errors import FrazilError, RequestError
from frazil.web.deadlines import Deadline

SILENCE_SECONDS = 30.0
"""This is how long an incomplete body may be silent, since what has arrived takes memory."""
BODY_SECONDS = 300.0
"""This is how long a body may take as a whole, however steadily it arrives."""
PASS_OVER_SECONDS = 10.0
"""This is how long the rest of a refused body may take; it is not kept."""
LEAVE_SECONDS = 0.05
"""This is how long after the end of a body it may take until it is known that the client disconnected instead."""


class BodyStalled(FrazilError):
    """Raised when a body stops arriving. The client may send it again, so it must not be told that the request is
    wrong."""

    public = True
    retryable = True


class BodyIncomplete(RequestError):
    """Raised when a body ends too early, because its client disconnected, or has malformed chunks."""

    def __init__(self) -> None:
        super().__init__(
            "The body is not complete: it ends before its Content-Length or its last chunk, or a chunk is malformed. "
            "Nothing of it is stored."
        )


class Incoming(Protocol):
    """A body that is arriving."""

    async def part(self) -> bytes | None:
        """Returns the next part, which may be empty; None when the body is complete. Raises `BodyIncomplete`."""


def announced(header: str | None) -> int | None:
    """Returns the length of a body by its `Content-Length`."""
    return int(header) if header is not None and header.isdecimal() else None


async def read_body(incoming: Incoming, count: Callable[[bytes], None]) -> bytes:
    """Returns the whole body. `count` gets each part, and raises if it is too much. Raises `BodyStalled` and
    `BodyIncomplete`."""
    parts: list[bytes] = []
    now = asyncio.get_running_loop().time
    end = now() + BODY_SECONDS
    try:
        with Deadline(min(now() + SILENCE_SECONDS, end)) as deadline:
            while (part := await incoming.part()) is not None:
                if part:
                    count(part)
                    parts.append(part)
                deadline.at = min(now() + SILENCE_SECONDS, end)
    except TimeoutError as error:
        raise BodyStalled(
            f"The body is not complete: nothing came of it for {SILENCE_SECONDS:g} seconds, or it takes more than "
            f"{BODY_SECONDS:g}. Nothing of it is stored."
        ) from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def check_there(leaving: Awaitable[object]) -> None:
    """Raises `BodyIncomplete` if the client has disconnected at the end of its body; `leaving` ends when it does.

    Over HTTP/2, a client that breaks off without an error, as some proxies do, seems to have sent everything. Only
    that it is gone is known, a moment later.
    """
    try:
        async with asyncio.timeout(LEAVE_SECONDS):
            await leaving
    except TimeoutError:
        return
    raise BodyIncomplete


async def pass_over(incoming: Incoming) -> None:
    """Reads the rest of a refused body, after the answer.

    If a connection is closed with unread bytes, it is reset, and the client may never see the answer.
    """
    try:
        async with asyncio.timeout(PASS_OVER_SECONDS):
            while await incoming.part() is not None:
                pass
    except (BodyIncomplete, TimeoutError, asyncio.CancelledError, RuntimeError):
        # The server cancels tasks that read from a client that has disconnected, and a complete body cannot be read
        # again.
        return
