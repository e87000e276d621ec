"""All partitions of a topic, read only when somebody asks: nothing is kept for a reader that does not."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from frazil.topics.messages import MessageRun
from frazil.topics.read.cursor import PartitionCursor
from frazil.topics.read.stream import WAIT_SECONDS


class RoundRobinReader:
    """Runs of messages as they come, of each partition in order; partitions that have some take turns."""

    def __init__(self, cursors: Sequence[PartitionCursor]) -> None:
        self._ready = deque(cursors)
        self._waiting: dict[asyncio.Task[bool], PartitionCursor] = {}

    async def next(self, max_rows: int, max_bytes: int) -> MessageRun:
        """The next run, as soon as there is one. After a cancellation it is the same."""
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
        """The run that was returned last comes again, before all others."""
        cursor = self._ready.pop()
        cursor.position = records.first
        self._ready.appendleft(cursor)

    def _collect_ready(self) -> None:
        """Partitions that need not wait any more are read next."""
        for task in [task for task in self._waiting if task.done()]:
            self._ready.append(self._waiting.pop(task))
            task.result()

    async def close(self) -> None:
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
