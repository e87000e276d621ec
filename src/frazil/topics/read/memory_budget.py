"""Limits the memory that all receivers of messages use together.

Each holder may have as much as is still free, and a little in any case. So a single holder has half of everything,
many have equal shares, and nobody waits for somebody who never lets go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LEAST_BYTES = 64 * 1024
"""Every holder may have this much, whatever the others hold."""


class MemoryBudget:
    """Counts bytes. Belongs to the event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0
        self.large = LargeMessageQueue(limit // 2)
        """Messages that are larger than their holder may have wait here."""

    def account(self) -> MemoryAccount:
        return MemoryAccount(self)

    @property
    def allowed(self) -> int:
        """Returns how much a single holder may have now."""
        return max(LEAST_BYTES, self._limit - self.held)


class MemoryAccount:
    """Counts what one holder has, or several that end together."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._closed = False
        self.held = 0

    @property
    def allowed(self) -> int:
        return self._memory.allowed

    def add(self, nbytes: int) -> None:
        """Adds bytes, or removes them if the number is negative."""
        if not self._closed:
            self.held += nbytes
            self._memory.held += nbytes

    def close(self) -> None:
        """Removes everything that the holder has."""
        self.add(-self.held)
        self._closed = True


class LargeMessageQueue:
    """Gives room to one after the other, in the order in which they asked.

    A request that is alone gets its room, however much it is. Belongs to the event loop.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def crowded(self) -> bool:
        """Returns whether somebody waits."""
        return bool(self._waiting)

    @asynccontextmanager
    async def room(self, nbytes: int) -> AsyncIterator[None]:
        if self._waiting or not self._fits(nbytes):
            await self._wait(nbytes)
        else:
            self._used += nbytes
        try:
            yield
        finally:
            self._used -= nbytes
            self._admit()

    def _fits(self, nbytes: int) -> bool:
        return not self._used or self._used + nbytes <= self._limit

    async def _wait(self, nbytes: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((nbytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._used -= nbytes
            else:
                self._waiting.remove((nbytes, turn))
            self._admit()
            raise

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            nbytes, turn = self._waiting.popleft()
            self._used += nbytes
            turn.set_result(None)
