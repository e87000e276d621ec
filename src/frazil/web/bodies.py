"""Bodies of HTTP requests that come slowly, or are refused before they are all here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from frazil.errors import FrazilError, RequestError
from frazil.web.deadlines import Deadline

SILENCE_SECONDS = 30.0
"""How long nothing may come of a body that is not complete: what has come of it takes room."""
BODY_SECONDS = 300.0
"""How long a body may take as a whole, however steadily it drips."""
PASS_OVER_SECONDS = 10.0
"""How long the rest of a refused body may take; it is kept nowhere."""
LEAVE_SECONDS = 0.05
"""How long after the end of a body it is known at the latest that the client had gone instead."""


class BodyStalled(FrazilError):
    """Raised when nothing more comes of a body. It may come again, so clients must not be told that it is wrong."""

    public = True
    retryable = True


class BodyIncomplete(RequestError):
    """Raised when a body ends too early, because its client has gone, or has malformed chunks."""

    def __init__(self) -> None:
        super().__init__(
            "The body is not complete: it ends before its Content-Length or its last chunk, or a chunk is malformed. "
            "Nothing of it is stored."
        )


class Incoming(Protocol):
    """A body that is on its way."""

    async def part(self) -> bytes | None:
        """What has come of it, which may be nothing; None when all is here. Raises `BodyIncomplete`."""


def announced(told: str | None) -> int | None:
    """How long a body is, by what its `Content-Length` says."""
    return int(told) if told is not None and told.isdecimal() else None


async def read_body(incoming: Incoming, count: Callable[[bytes], None]) -> bytes:
    """All of a body; `count` is told of each part, and raises if it is too much. Raises `BodyStalled` and
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
    """Raise `BodyIncomplete` if the client has gone at the end of its body; `leaving` ends when it does.

    Over HTTP/2 who breaks off without an error, as some proxies do, seems to have sent all. Only that it is no longer
    there is known, and a moment later.
    """
    try:
        async with asyncio.timeout(LEAVE_SECONDS):
            await leaving
    except TimeoutError:
        return
    raise BodyIncomplete


async def pass_over(incoming: Incoming) -> None:
    """Read the rest of a body that was refused, after the answer.

    A connection that is closed with bytes in it that nobody read is reset, and the client may never see the answer.
    """
    try:
        async with asyncio.timeout(PASS_OVER_SECONDS):
            while await incoming.part() is not None:
                pass
    except (BodyIncomplete, TimeoutError, asyncio.CancelledError, RuntimeError):
        # The server cancels who reads from a client that has gone; a body that was read to its end cannot be again.
        return
