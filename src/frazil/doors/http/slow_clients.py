"""Sends answers to clients that may not read them.

No event tells that a client with a full connection has vanished. So the memory of an answer is counted until it was
sent, and a client that reads nothing for too long is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterator, MutableMapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Self

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from frazil.doors.http.pages import PAGE_BYTES
from frazil.topics.read.memory_budget import MemoryAccount, MemoryBudget

logger = logging.getLogger(__name__)

RUN_BYTES = 256 * 1024
"""An answer that is larger than its share by more than this, because of one large message, waits for its own room."""
CHUNK_BYTES = 64 * 1024
"""So much of an answer is sent at a time. The server buffers about ten chunks for each client that does not read."""
STALL_SECONDS = 300.0
"""A client that reads nothing for this long is dropped. It may come back."""
CROWDED_STALL_SECONDS = 10.0
"""It is dropped after this time while others wait for the memory that it holds."""
CHECK_SECONDS = 1.0
"""We check this often whether others wait."""


class ResponseMemory:
    """Counts the memory of one answer, from before it is made until the client has read it or it is abandoned."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._account = memory.account()
        self._cleanup = AsyncExitStack()
        self._cleanup.callback(self._account.close)
        self._most = 0
        self._has_room = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._cleanup.aclose()

    def reserve(self) -> int:
        """Returns how many bytes of messages the answer may have. They are reserved at once, or many answers would
        all get them."""
        self._most = min(PAGE_BYTES, self._account.allowed)
        self._account.add(self._most)
        return self._most

    def fits(self, nbytes: int) -> bool:
        """Returns whether the answer may have this many bytes. It may have found one message too much."""
        return self._has_room or nbytes <= self._most + RUN_BYTES

    async def make_room(self, nbytes: int) -> None:
        """Waits until there is room for an answer that does not fit. The caller must not keep its messages
        meanwhile."""
        await self._cleanup.enter_async_context(self._memory.large.room(nbytes))
        self._has_room = True

    def answer(self, made: Response) -> Response:
        """Returns the same answer, which frees its memory while it is sent."""
        body = bytes(made.body)
        self._account.add(len(body) - self._account.held)
        return _AccountedResponse(made, _chunks(body, self._account), self._memory, self._cleanup.pop_all())


class _AccountedResponse(StreamingResponse):
    def __init__(
        self, made: Response, pieces: AsyncGenerator[bytes, None], memory: MemoryBudget, cleanup: AsyncExitStack
    ) -> None:
        super().__init__(pieces, made.status_code)
        self.raw_headers = made.raw_headers
        self._memory = memory
        self._cleanup = cleanup

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._cleanup:
            if scope["method"] == "HEAD":
                await Response(headers=dict(self.headers))(scope, receive, send)
                return
            with dropping_stalled(scope):
                await super().__call__(scope, receive, with_stall_timeout(send, self._memory))


async def _chunks(body: bytes, account: MemoryAccount) -> AsyncGenerator[bytes, None]:
    """Yields the body in chunks. Each is freed when the client has read it."""
    pieces = deque(body[start : start + CHUNK_BYTES] for start in range(0, len(body), CHUNK_BYTES))
    del body
    while pieces:
        piece = pieces.popleft()
        yield piece
        account.add(-len(piece))


def with_stall_timeout(send: Send, memory: MemoryBudget) -> Send:
    """Raises `TimeoutError` when the client reads nothing for too long."""

    async def send_soon(message: MutableMapping[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        started, sending = loop.time(), asyncio.ensure_future(send(message))
        try:
            while not sending.done():
                stalled = CROWDED_STALL_SECONDS if memory.large.crowded else STALL_SECONDS
                if loop.time() - started > stalled:
                    raise TimeoutError
                await asyncio.wait([sending], timeout=min(stalled, CHECK_SECONDS))
            sending.result()
        finally:
            sending.cancel()

    return send_soon


@contextmanager
def dropping_stalled(scope: Scope) -> Iterator[None]:
    """Logs that a client was dropped because it read nothing."""
    try:
        yield
    except TimeoutError:
        logger.info("a reader of messages reads nothing, and is let go", extra={"path": scope["path"]})
