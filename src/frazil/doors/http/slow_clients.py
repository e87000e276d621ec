"""Answers to clients that may not read them: nobody tells when one vanishes whose connection is full."""

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
"""Whoever has so much more than its part, which is one large message, waits for its own room."""
CHUNK_BYTES = 64 * 1024
"""Of an answer that are sent at a time. The server has about ten pieces for each client that does not read."""
STALL_SECONDS = 300.0
"""A reader that takes nothing for so long has gone, or may come back."""
CROWDED_STALL_SECONDS = 10.0
"""The same, while others wait for the memory that it has."""
CHECK_SECONDS = 1.0
"""How often it is looked whether others wait."""


class ResponseMemory:
    """The memory of one answer: from before it is made until its client has taken it, or it comes to nothing."""

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
        """How many bytes of messages it may have. They count from now on, or many at once would all have them."""
        self._most = min(PAGE_BYTES, self._account.allowed)
        self._account.add(self._most)
        return self._most

    def fits(self, nbytes: int) -> bool:
        """Whether it may have what it has found, which may be one message too much."""
        return self._has_room or nbytes <= self._most + RUN_BYTES

    async def make_room(self, nbytes: int) -> None:
        """Wait until there is room for what does not fit; nothing of it may be kept meanwhile."""
        await self._cleanup.enter_async_context(self._memory.large.room(nbytes))
        self._has_room = True

    def answer(self, made: Response) -> Response:
        """The same answer, which lets go of the memory as it is sent."""
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
    """Each is let go of when the client has taken it, and not kept as a part of the whole."""
    pieces = deque(body[start : start + CHUNK_BYTES] for start in range(0, len(body), CHUNK_BYTES))
    del body
    while pieces:
        piece = pieces.popleft()
        yield piece
        account.add(-len(piece))


def with_stall_timeout(send: Send, memory: MemoryBudget) -> Send:
    """`TimeoutError` when the client takes nothing for too long."""

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
    """Of a client that takes nothing."""
    try:
        yield
    except TimeoutError:
        logger.info("a reader of messages reads nothing, and is let go", extra={"path": scope["path"]})
