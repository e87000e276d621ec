"""Reading one partition of a topic from an offset on: table, segments, tail, and on from the tail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

from frazil.errors import RequestError
from frazil.log.follow import STORE_POLL_SECONDS, WAIT_SECONDS
from frazil.topics.cold import ColdReader
from frazil.topics.finding import first_since
from frazil.topics.messages import Records
from frazil.topics.place import TopicPlace
from frazil.topics.starts import Start
from frazil.topics.tail import MessageTail

T = TypeVar("T")


class Cursor(Protocol):
    """Reads one partition from an offset on: table, segments, tail, in order, without gap or repeat.

    `OffsetGone` when what it is at is left neither in the log nor in the table; `EpochChanged` when what it has read
    did not last. It stays where it is then, until `seek`.
    """

    position: int

    async def read(self, max_rows: int, max_bytes: int) -> Records | None:
        """The next run; None when there is nothing now."""

    async def wait(self, timeout: float) -> bool:
        """True when there is something to read."""

    def seek(self, offset: int) -> None: ...


class PartitionCursor:
    """Belongs to one task. What blocks happens in `executor`, whose threads bound how many read at a time."""

    def __init__(
        self,
        place: TopicPlace,
        partition: int,
        tail: MessageTail,
        executor: Executor,
        position: int = 0,
        epoch: str | None = None,
    ) -> None:
        self.partition = partition
        self.position = position
        self.epoch = epoch
        """Of the last message that was read; None where a reader begins."""
        self._place = place
        self._tail = tail
        self._executor = executor
        self._cold = ColdReader(place, partition)

    async def read(self, max_rows: int, max_bytes: int) -> Records | None:
        """The next messages, at least one, no more than this; None when there are none now."""
        if max_rows < 1 or max_bytes < 1:
            raise RequestError(
                f"A reader cannot ask for {max_rows} messages of {max_bytes} bytes: ask for 1 or more."
            )
        found = self._cold.ready(self.position, max_rows, max_bytes)
        if found is None:
            found = self._tail.read(self.position, self.epoch, max_rows, max_bytes)
        if found is None and not self._tail.has(self.position):
            found = await self._blocking(lambda cold: cold.read(self.position, self.epoch, max_rows, max_bytes))
        if found is not None:
            self.position, self.epoch = found.end, found.epoch
        return found

    async def wait(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            patience = min(WAIT_SECONDS, deadline - loop.time())
            if (tail := self._tail.tail) is not None:
                # Looks again now and then: the writer may be another one, or gone.
                if await tail.wait_async(self.position, max(0.0, patience)):
                    return True
            elif await self._blocking(lambda cold: cold.end()) > self.position:
                return True
            else:
                await asyncio.sleep(max(0.0, min(patience, STORE_POLL_SECONDS)))
            if loop.time() >= deadline:
                return False

    def seek(self, offset: int) -> None:
        """Go on from another offset, whatever was read before."""
        if offset < 0:
            raise RequestError(f"{offset} is no offset: offsets begin with 0.")
        self.position, self.epoch = offset, None

    async def begin(self, start: Start) -> None:
        """Seek to where a reader is to begin."""
        match start.kind:
            case "earliest":
                self.seek(await self._blocking(lambda cold: cold.earliest()))
            case "latest":
                self.seek(await self.end())
            case "time":
                find = first_since
                place, partition = self._place, self.partition
                self.seek(await self._blocking(lambda _: find(place, partition, start.time_ms)))
            case "offset":
                one = start.of(self.partition)
                if one.kind == "earliest":
                    return await self.begin(one)
                assert isinstance(one.offset, int)
                self.seek(one.offset)
        return None

    async def end(self) -> int:
        """Where the partition ends now."""
        tail = self._tail.tail
        if tail is not None:
            return tail.end
        return await self._blocking(lambda cold: cold.end())

    async def _blocking(self, work: Callable[[ColdReader], T]) -> T:
        cold = self._cold
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work, cold)
        except asyncio.CancelledError:
            # A thread may still be busy with this one.
            self._cold = ColdReader(self._place, self.partition)
            raise
