"""Bodies of HTTP requests that come slowly, or are refused before they are all here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Receive

from frazil.doors.deadlines import Deadline
from frazil.errors import FrazilError

SILENCE_SECONDS = 30.0
"""How long nothing may come of a body that is not complete: what has come of it takes room."""
BODY_SECONDS = 300.0
"""How long a body may take as a whole, however steadily it drips."""
PASS_OVER_SECONDS = 10.0
"""How long the rest of a refused body may take; it is kept nowhere."""
CLOSED = 499
"""Status of answers that nobody reads: the client has gone."""


class BodyStalled(FrazilError):
    """Raised when nothing more comes of a body. It may come again, so clients must not be told that it is wrong."""

    retryable = True


class Gone(Exception):
    """Raised when the client goes before all of its body is here."""


async def read_body(receive: Receive, count: Callable[[bytes], None]) -> bytes:
    """All of a body; `count` is told of each part, and raises if it is too much. Raises `BodyStalled` and `Gone`."""
    parts: list[bytes] = []
    more = True
    now = asyncio.get_running_loop().time
    end = now() + BODY_SECONDS
    try:
        with Deadline(min(now() + SILENCE_SECONDS, end)) as deadline:
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise Gone
                more = message.get("more_body", False)
                if part := message.get("body", b""):
                    count(part)
                    parts.append(part)
                deadline.at = min(now() + SILENCE_SECONDS, end)
    except TimeoutError as error:
        raise BodyStalled(
            f"The body is not complete: nothing came of it for {SILENCE_SECONDS:g} seconds, or it takes more than "
            f"{BODY_SECONDS:g}. Nothing of it is stored."
        ) from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def pass_over(receive: Receive) -> None:
    """Read the rest of a body that was refused, after the answer.

    A connection that is closed with bytes in it that nobody read is reset, and the client may never see the answer.
    """
    try:
        async with asyncio.timeout(PASS_OVER_SECONDS):
            more = True
            while more:
                message = await receive()
                more = message["type"] == "http.request" and message.get("more_body", False)
    except (TimeoutError, asyncio.CancelledError, RuntimeError):
        # The server cancels who reads from a client that has gone; a body that was read to its end cannot be again.
        return
