"""Reads messages in files once for all readers at about the same offset.

A few files are open at a time. A reader at an offset where nobody else is waits for its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple, TypeVar

import pyarrow as pa

from frazil.errors import FrazilError
from frazil.topics.messages import MessageRun
from frazil.topics.read.chunk_cache import ChunkCache, FileSet, Partition, ReaderView
from frazil.topics.read.cold_reader import ChunkRead, ColdReader
from frazil.topics.read.topic_handle import TopicHandle

T = TypeVar("T")

KEPT_SECONDS = 10.0
"""A reader may still see messages this long after they were deleted from a table, if it began before."""
SOURCE_BYTES = 4 * 1024 * 1024
"""An open file takes about this much memory: a chunk, a page of each column, and what was fetched of them."""
LEAST_SOURCES = 2


class _IdleReader(NamedTuple):
    partition: Partition
    reader: ColdReader
    since: float


class _ReadRequest(NamedTuple):
    offset: int
    epoch: str | None
    files: FileSet
    """These are the files that the reader found when it began."""


class SharedFiles:
    """Belongs to one event loop. Blocking work happens in `executor`. Half of the `limit` is for open files."""

    def __init__(self, executor: Executor, limit: int) -> None:
        self._executor = executor
        self._chunks = ChunkCache(limit // 2)
        self._most = max(LEAST_SOURCES, limit // 2 // SOURCE_BYTES)
        self._turns = asyncio.Semaphore(self._most)
        self._busy = 0
        self._idle: list[_IdleReader] = []
        """These readers can continue. The one that is idle for longest comes first."""
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def nbytes(self) -> int:
        """Returns the memory of cached messages and of open files."""
        return self._chunks.nbytes + (self._busy + len(self._idle)) * SOURCE_BYTES

    def of(self, handle: TopicHandle, generation: int, partition: int) -> PartitionFiles:
        return PartitionFiles(self, self._chunks, handle, (handle.topic, generation, partition))

    @asynccontextmanager
    async def source(
        self, handle: TopicHandle, partition: Partition, suits: Callable[[ColdReader], bool]
    ) -> AsyncIterator[ColdReader]:
        """Yields a reader of a partition: an idle one that `suits`, else a new one."""
        async with self._turns:
            reader = self._take(partition, suits) or ColdReader(handle, partition[2])
            self._busy += 1
            lost = False
            try:
                yield reader
            except asyncio.CancelledError:
                # A thread may still be busy with this reader.
                lost = True
                raise
            finally:
                self._busy -= 1
                if not lost:
                    self._idle.append(_IdleReader(partition, reader, self._now()))
                self._sweep_later()

    def _take(self, partition: Partition, suits: Callable[[ColdReader], bool]) -> ColdReader | None:
        for index, idle in enumerate(self._idle):
            if idle.partition == partition and suits(idle.reader):
                return self._idle.pop(index).reader
        if self._busy + len(self._idle) >= self._most:
            del self._idle[0]
        return None

    async def blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        since = self._now() - KEPT_SECONDS
        self._chunks.forget(since)
        self._idle = [each for each in self._idle if each.since >= since]
        if self._chunks or self._idle or self._busy:
            self._sweep_later()
        else:
            # The allocator keeps what was freed for later use, and nobody may come soon.
            self._executor.submit(pa.default_memory_pool().release_unused)

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._idle.clear()


class PartitionFiles:
    """Reads the files of one partition for all its readers."""

    def __init__(self, shared: SharedFiles, chunks: ChunkCache, handle: TopicHandle, partition: Partition) -> None:
        self._shared = shared
        self._chunks = chunks
        self._handle = handle
        self._partition = partition
        self._reading: dict[_ReadRequest, asyncio.Task[ChunkRead | None]] = {}

    async def view(self, offset: int, epoch: str | None) -> ReaderView | None:
        """Returns what a reader that begins at an offset may see, or None when there is nothing yet."""
        found = await self.ask(lambda reader: reader.find(offset, epoch))
        return None if found is None else ReaderView(found)

    def ready(self, offset: int, epoch: str | None, view: ReaderView) -> MessageRun | None:
        """Returns the messages at an offset if they are in the cache. It never blocks."""
        found = self._chunks.find(self._partition, offset, view)
        return found if found is not None and found.epoch == epoch else None

    async def read(self, offset: int, epoch: str | None, view: ReaderView) -> MessageRun | None:
        """Returns the messages from an offset to the end of a chunk, or None when there are none yet."""
        found = self._chunks.find(self._partition, offset, view)
        while found is None:
            read = await self._read_shared(_ReadRequest(offset, epoch, view.lookup.files), view)
            if read is None:
                return None
            if view.accepts(read.lookup):
                found = read.records
        if epoch not in (None, found.epoch):
            await self.ask(lambda reader: reader.check(epoch, offset))
        return found

    async def ask(self, work: Callable[[ColdReader], T]) -> T:
        """Runs work other than reading messages."""
        return await self._ask(work, lambda reader: not reader.is_open)

    async def _ask(self, work: Callable[[ColdReader], T], suits: Callable[[ColdReader], bool]) -> T:
        async with self._shared.source(self._handle, self._partition, suits) as reader:
            return await self._shared.blocking(partial(work, reader))

    async def _read_shared(self, wanted: _ReadRequest, view: ReaderView) -> ChunkRead | None:
        """Joins a read of the same chunk that is in progress, or starts one."""
        task = self._reading.get(wanted)
        if task is None:
            task = self._reading[wanted] = asyncio.create_task(self._read(wanted, view))
            task.add_done_callback(partial(self._done, wanted))
        try:
            return await asyncio.shield(task)
        except FrazilError as error:
            raise error.again() from None

    def _done(self, wanted: _ReadRequest, task: asyncio.Task[ChunkRead | None]) -> None:
        del self._reading[wanted]
        if not task.cancelled():
            # Perhaps nobody waits for the result any more.
            task.exception()

    async def _read(self, wanted: _ReadRequest, view: ReaderView) -> ChunkRead | None:
        read = await self._ask(
            lambda reader: reader.read(wanted.offset, wanted.epoch, view),
            lambda reader: reader.continues_at(wanted.offset, view),
        )
        if read is not None and read.lookup.files.permanent:
            self._chunks.add(self._partition, read.chunk, read.lookup, asyncio.get_running_loop().time())
        return read
