"""Reads all partitions of a topic in turn, and only when asked: nothing is read ahead."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from frazil.topics.messages import MessageRun
from frazil.topics.read.cursor import PartitionCursor
from frazil.topics.read.stream import WAIT_SECONDS


class RoundRobinReader:
    """Returns messages as they come, in order within each partition. Partitions that have some take turns."""

    def __init__(self, cursors: Sequence[PartitionCursor]) -> None:
        self._ready = deque(cursors)
        self._waiting: dict[asyncio.Task[bool], PartitionCursor] = {}

    async def next(self, max_rows: int, max_bytes: int) -> MessageRun:
        """Waits for the next messages and returns them. After a cancellation it returns the same messages."""
        while True:
            while self._ready:
                cursor = self._ready[0]
                records = await cursor.read(max_rows, max_bytes)
                self._ready.popleft()
                if records is not None:
                    self._collect_ready()
                    self._ready.append(cursor)
                    return records
                self._waiting[asyncio.create_task(cursor.wait(WAIT_SECONDS))] = cursor
            await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
            self._collect_ready()

    def give_back(self, records: MessageRun) -> None:
        """Makes the messages that were returned last come again, before all others."""
        cursor = self._ready.pop()
        cursor.position = records.first
        self._ready.appendleft(cursor)

    def _collect_ready(self) -> None:
        """Moves partitions that have finished waiting to those that are read next."""
        for task in [task for task in self._waiting if task.done()]:
            self._ready.append(self._waiting.pop(task))
            task.result()

    async def close(self) -> None:
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
