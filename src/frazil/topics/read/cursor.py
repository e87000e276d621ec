"""Reads one partition of a topic from an offset on: from the table, the segments and the tail, and then new
messages."""

from __future__ import annotations

import asyncio
from typing import Protocol

from frazil.errors import RequestError
from frazil.log.follow import STORE_POLL_SECONDS, WAIT_SECONDS
from frazil.topics.messages import MessageRun
from frazil.topics.read.batch_slices import head
from frazil.topics.read.chunk_cache import ReaderView
from frazil.topics.read.shared_files import PartitionFiles
from frazil.topics.read.starts import Start
from frazil.topics.read.tail import MessageTail
from frazil.topics.read.time_search import first_since
from frazil.topics.read.topic_handle import TopicHandle


class Cursor(Protocol):
    """Reads one partition from an offset on, in order, without gaps or duplicates.

    It raises `OffsetGone` when neither the log nor the table has its position any more, and `EpochChanged` when
    messages that it has read are not part of the log any more. It then stays where it is until `seek`.
    """

    position: int

    async def read(self, max_rows: int, max_bytes: int) -> MessageRun | None:
        """Returns the next messages, or None when there are none now."""

    async def wait(self, timeout: float) -> bool:
        """Returns whether there is something to read."""

    def seek(self, offset: int) -> None: ...


class PartitionCursor:
    """Belongs to one task. It keeps nothing of what it has read, so others may have to read that again."""

    def __init__(self, handle: TopicHandle, partition: int, tail: MessageTail, files: PartitionFiles) -> None:
        self.partition = partition
        self.position = 0
        self.epoch: str | None = None
        """This is the epoch of the last message that was read. It is None at the start of a read."""
        self._view: ReaderView | None = None
        """It is None at the start of a read, and as long as messages come from memory."""
        self._handle = handle
        self._tail = tail
        self._files = files

    async def read(self, max_rows: int, max_bytes: int) -> MessageRun | None:
        """Returns the next messages within these limits, at least one, or None when there are none now."""
        if max_rows < 1 or max_bytes < 1:
            raise RequestError(
                f"A reader cannot ask for {max_rows} messages of {max_bytes} bytes: ask for 1 or more."
            )
        found = self._tail.read(self.position, self.epoch, max_rows, max_bytes)
        if found is None and not self._tail.has(self.position):
            found = await self._from_files()
            if found is not None:
                found = found._replace(batch=head(found.batch, max_rows, max_bytes))
        if found is not None:
            self.position, self.epoch = found.end, found.epoch
        return found

    async def _from_files(self) -> MessageRun | None:
        position, epoch = self.position, self.epoch
        if self._view is None:
            self._view = await self._files.view(position, epoch)
            if self._view is None:
                return None
        found = self._files.ready(position, epoch, self._view)
        return found or await self._files.read(position, epoch, self._view)

    async def wait(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            patience = min(WAIT_SECONDS, deadline - loop.time())
            if (tail := self._tail.tail) is not None:
                # The wait is short, because the writer may be replaced or gone meanwhile.
                if await tail.wait_async(self.position, max(0.0, patience)):
                    return True
            elif await self._files.ask(lambda reader: reader.end()) > self.position:
                return True
            else:
                await asyncio.sleep(max(0.0, min(patience, STORE_POLL_SECONDS)))
            if loop.time() >= deadline:
                return False

    def seek(self, offset: int) -> None:
        """Continues from another offset, whatever was read before."""
        if offset < 0:
            raise RequestError(f"{offset} is no offset: offsets begin with 0.")
        self.position, self.epoch, self._view = offset, None, None

    async def begin(self, start: Start) -> None:
        """Seeks to where a reader begins."""
        match start.kind:
            case "earliest":
                self.seek(await self._files.ask(lambda reader: reader.earliest()))
            case "latest":
                self.seek(await self.end())
            case "time":
                find = first_since
                handle, partition = self._handle, self.partition
                self.seek(await self._files.ask(lambda _: find(handle, partition, start.time_ms)))
            case "offset":
                one = start.of(self.partition)
                if one.kind == "earliest":
                    return await self.begin(one)
                assert isinstance(one.offset, int)
                self.seek(one.offset)
        return None

    async def end(self) -> int:
        """Returns where the partition ends now."""
        tail = self._tail.tail
        if tail is not None:
            return tail.end
        return await self._files.ask(lambda reader: reader.end())
