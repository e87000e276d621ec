"""The writer of a partition: it appends records and seals them.

With a WAL (`ack: local`) an append is acknowledged once its frame is written as the sync mode says. Without one
(`ack: object`) it is acknowledged once its segment is in the store; until then its rows are provisional.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from frazil.clock import World
from frazil.disk.files import DirectoryLock, NoLock
from frazil.errors import (
    EmptyBuffer,
    FrazilError,
    LogBroken,
    LogCorrupted,
    LogFull,
    LogVersionUnsupported,
    PartitionFenced,
    PartitionTaken,
    RecordTooLarge,
    ShutdownError,
    WriteFailed,
)
from frazil.log.forms import RawAppends
from frazil.log.positions import Feeders, Origin
from frazil.log.schema.schema import SchemaAdapter, SchemaVersion
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import Segment
from frazil.log.tail import Tail, TailView
from frazil.log.topics.schemas import TopicSchemas
from frazil.log.wal.directory import Wal
from frazil.log.writer.batch_sizes import size_of
from frazil.log.writer.commit import Committer
from frazil.log.writer.group import Ack, BatchAppend, Group, GroupQueue
from frazil.log.writer.options import WriterOptions
from frazil.log.writer.sealing import Draft, Fenced, Sealing
from frazil.log.writer.starting import Start, start_from_store
from frazil.store import ObjectStore

logger = logging.getLogger(__name__)

MAX_GROUP_BYTES = 8 * 1024 * 1024
"""A group has at most this size. Larger ones would make appends wait longer, without saving anything."""
SYNC_AHEAD = 8 * 1024 * 1024
"""A sync is started when this much is unsynced, so that the end of a file does not have to wait for all of it."""
SMALL = 512 * 1024
"""The event loop itself may write an append of up to this size."""


def done_future() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future


@dataclass(frozen=True, slots=True)
class Pending:
    """An append that is not acknowledged yet."""

    group: Group
    index: int

    def done(self) -> bool:
        return self.group.done

    def result(self, timeout: float | None = None) -> Ack:
        if not self.group.done and not self.group.event().wait(timeout):
            raise TimeoutError("The append is not acknowledged yet; it may still be.")
        return self.group.outcome(self.index)


class PartitionWriter:
    """The only writer of a partition. Thread-safe; both threads and coroutines may append."""

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        store: ObjectStore,
        schemas: TopicSchemas,
        options: WriterOptions,
        world: World,
        executor: Executor,
        start: Start,
        wal: Wal | None,
        lock: DirectoryLock | NoLock,
        on_change: Callable[[PartitionWriter], None] = lambda _: None,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        """`confirm` is called before a segment is put, and raises when its records must not be stored."""
        self.topic = topic
        self.partition = partition
        self.options = options
        self._schemas = schemas
        self._world = world
        self._executor = executor
        self._on_change = on_change
        self._confirm = confirm
        self._lock = lock
        self._index = SegmentIndex(store, topic, partition)
        self._tail = Tail(start.sealed_end, start.epochs, start.entries, (start.writer, *start.former_writers))
        self._committer = Committer(start, schemas, self._tail, wal, options, world)
        self.stats = self._committer.stats
        self._sealing = Sealing(topic, partition, store, self._index, start, schemas, options, world)
        self._queue = GroupQueue(MAX_GROUP_BYTES)
        self._committer.drop_below(start.sealed_end)
        self._unsealed: deque[Group] = deque()
        """The committed groups that are acknowledged when they are sealed."""
        self._seal_lock = threading.Lock()
        self._dropping: Future[None] = done_future()
        """The deletion of WAL files that are sealed."""
        self._syncing: Future[None] = done_future()
        self._waiting_since: float | None = None
        """The time of the oldest unsealed record, by the monotonic clock."""
        if start.entries:
            self._waiting_since = world.clock.monotonic()
        self._waiting_for_room = 0
        self._hurried_to = 0
        """Records below this offset are due to be sealed, whatever their size and age."""
        self._refusing: ShutdownError | None = None
        self._adapter: SchemaAdapter | None = None
        """The adapter for batches of the schema that came last."""

    # --- appending -----------------------------------------------------------------------------------------

    def append(self, batch: pa.RecordBatch, origin: Origin | None = None) -> Ack:
        """Store a batch, all of it or nothing, and wait until it is acknowledged."""
        pending, leading = self._enqueue(batch, origin)
        if leading:
            self._lead(until=pending.group)
        return pending.result()

    def submit(self, batch: pa.RecordBatch, origin: Origin | None = None) -> Pending:
        """Store a batch without waiting for the acknowledgement. It may wait for room in the tail."""
        pending, leading = self._enqueue(batch, origin)
        if leading and self.options.sync == "always" and self.options.ack == "local":
            self._executor.submit(self._lead)
        elif leading:
            self._lead(until=pending.group)
        return pending

    def _enqueue(self, batch: pa.RecordBatch, origin: Origin | None) -> tuple[Pending, bool]:
        """Queue a batch. Return also whether the caller is the leader, who has to write it."""
        nbytes = self._measure(batch)
        adapter = self._adapter
        if adapter is None or not batch.schema.equals(adapter.given):
            adapter = self._learn(batch.schema)
        batch = adapter.apply(batch)
        if not self._has_room(nbytes):
            self._await_room(nbytes)
        with self._queue.lock:
            self._check_open()
            group, index = self._queue.add(adapter.version, batch, [BatchAppend(batch.num_rows, origin)], nbytes)
            group.event()
            return Pending(group, index), self._queue.lead()

    async def append_async(self, batch: pa.RecordBatch, origin: Origin | None = None) -> Ack:
        """Do what `append` does without blocking the event loop."""
        (outcome,) = await self.append_many(batch, [BatchAppend(batch.num_rows, origin)])
        if isinstance(outcome, FrazilError):
            raise outcome.again()
        return outcome

    async def append_many(self, batch: pa.RecordBatch, parts: Sequence[BatchAppend]) -> list[Ack | FrazilError]:
        """Store a batch whose rows are several appends, and return the outcome of each.

        They succeed or fail together, except for those that were stored before.
        """
        nbytes = self._measure(batch)
        adapter = await self._adapter_for(batch.schema)
        if not adapter.trivial:
            batch = adapter.apply(batch)
        return await self._append(adapter.version, batch, parts, nbytes)

    async def append_raw(self, raw: RawAppends, parts: Sequence[BatchAppend]) -> list[Ack | FrazilError]:
        """Do what `append_many` does for raw appends, which are decoded later."""
        self._check_size(raw.nbytes)
        adapter = await self._adapter_for(raw.schema)
        return await self._append(adapter.version, raw.appends, parts, raw.nbytes, raw.form)

    async def _append(
        self,
        schema: SchemaVersion,
        content: pa.RecordBatch | list[bytes],
        parts: Sequence[BatchAppend],
        nbytes: int,
        form: str = "",
    ) -> list[Ack | FrazilError]:
        if not self._has_room(nbytes):
            await self._await_room_async(nbytes)
        queue = self._queue
        with queue.lock:
            self._check_open()
            group, first = queue.add(schema, content, parts, nbytes, form)
            leading = queue.lead()
            inline = leading and nbytes <= SMALL and self._committer.is_quick(nbytes)
            future = None if inline and self.options.ack == "local" else group.future()
        if inline:
            self._lead(until=group)
        elif leading:
            self._executor.submit(self._lead)
        if future is not None:
            await future
        return group.outcomes[first : first + len(parts)]

    def _measure(self, batch: pa.RecordBatch) -> int:
        """Return the size of a batch. Raises when the batch is empty or too large."""
        nbytes = size_of(batch)
        self._check_size(nbytes)
        if not batch.num_rows:
            raise EmptyBuffer(f"Nothing to append to {self.topic!r}: the batch has no rows.")
        return nbytes

    def _check_size(self, nbytes: int) -> None:
        if nbytes > self.options.max_append_bytes:
            raise RecordTooLarge(
                f"An append of {nbytes:,} bytes to {self.topic!r} is over the limit of "
                f"{self.options.max_append_bytes:,} (`log.max_append_mb`). Send smaller batches."
            )

    async def _adapter_for(self, schema: pa.Schema) -> SchemaAdapter:
        adapter = self._adapter
        if adapter is None or not schema.equals(adapter.given):
            adapter = await asyncio.to_thread(self._learn, schema)
        return adapter

    def _learn(self, schema: pa.Schema) -> SchemaAdapter:
        """Make an adapter for batches of this schema. The schema of the topic is widened if necessary."""
        self._adapter = SchemaAdapter(schema, self._schemas.admit(schema))
        return self._adapter

    def _check_open(self) -> None:
        if stopped := self._committer.stopped or self._refusing:
            raise stopped.again()

    def has_room_for(self, batch: pa.RecordBatch) -> bool:
        """Tell whether the batch could be appended without waiting for room."""
        return self._has_room(self._measure(batch))

    def _has_room(self, nbytes: int) -> bool:
        used = self._tail.nbytes + self._queue.nbytes
        return used + nbytes <= self.options.max_tail_bytes or not used or self.stopped is not None

    def _await_room(self, nbytes: int) -> None:
        with self._room_wanted():
            if not self._tail.freed.wait(lambda: self._has_room(nbytes), self.options.append_timeout):
                raise self._full()

    async def _await_room_async(self, nbytes: int) -> None:
        with self._room_wanted():
            if not await self._tail.freed.wait_async(lambda: self._has_room(nbytes), self.options.append_timeout):
                raise self._full()

    @contextmanager
    def _room_wanted(self) -> Iterator[None]:
        """Make sealing due while somebody waits for room."""
        self.stats.waits_for_room += 1
        with self._queue.lock:
            self._waiting_for_room += 1
        self._on_change(self)
        try:
            yield
        finally:
            with self._queue.lock:
                self._waiting_for_room -= 1

    def _full(self) -> LogFull:
        self.stats.refused_full += 1
        return LogFull(
            f"{self.topic}/{self.partition}: {self._tail.nbytes:,} bytes wait to be sealed and there was no room for "
            f"{self.options.append_timeout:g} s (`log.max_tail_mb`, `log.append_timeout_seconds`). The object store "
            f"is slow or down, or more comes in than it takes. Try again."
        )

    def _lead(self, until: Group | None = None) -> None:
        """Write groups until there are none. A caller that waits for its own group leaves the rest to a thread."""
        while group := self._queue.next():
            try:
                self._commit(group)
            except BaseException:
                group.fail(WriteFailed(f"{self.topic}/{self.partition}: the write was interrupted."))
                self._executor.submit(self._lead)
                raise
            if group is until and self._queue.nbytes:
                self._executor.submit(self._lead)
                return

    def _commit(self, group: Group) -> None:
        was_empty = self._waiting_since is None
        try:
            self._committer.commit(group, self._stored)
        except FrazilError as error:
            group.fail(error)
            return
        except Exception as error:  # callers that wait must get it, whatever it is
            logger.exception("a group of appends failed", extra={"topic": self.topic, "partition": self.partition})
            group.fail(WriteFailed(f"{self.topic}/{self.partition}: {error}"))
            return
        if self._committer.unsynced > SYNC_AHEAD and self._syncing.done():
            self._syncing = self._executor.submit(self._committer.sync)
        if was_empty or (not self._seal_lock.locked() and self.seal_due()):
            self._on_change(self)

    def _stored(self, group: Group) -> None:
        if self._waiting_since is None and self._tail.end > self._tail.start:
            self._waiting_since = self._world.clock.monotonic()
        if self.options.ack == "object" and group.acked_at > self._tail.start:
            self._unsealed.append(group)
        else:
            group.finish()

    # --- sealing -------------------------------------------------------------------------------------------

    def seal_due(self) -> bool:
        """Tell whether sealing is due: by size, count or time, whichever comes first."""
        wait = self.seal_in()
        return wait is not None and wait <= 0

    def seal_in(self) -> float | None:
        """Return the seconds until sealing is due; None when there is nothing to seal."""
        since = self._waiting_since
        if since is None or isinstance(self._committer.stopped, PartitionTaken):
            return None
        rows = self._tail.end - self._tail.start
        most = min(self.options.seal_bytes, self.options.max_tail_bytes // 2)
        hurried = self._tail.start < self._hurried_to
        if self._tail.nbytes >= most or rows >= self.options.seal_rows or self._waiting_for_room or hurried:
            return 0.0
        return self.options.seal_seconds - (self._world.clock.monotonic() - since)

    def hurry(self) -> None:
        """Have all current records sealed now, in the background."""
        self._hurried_to = self._tail.end
        self._on_change(self)

    def seal(self) -> Segment | None:
        """Seal the oldest unsealed records as one segment. Return None when there are none.

        A retryable error leaves everything as it is: call again.
        """
        with self._seal_lock:
            if isinstance(self._committer.stopped, PartitionTaken):
                raise self._committer.stopped.again()
            started = time.perf_counter()
            draft = self._sealing.draft or self._prepare()
            if draft is None:
                return None
            try:
                self._confirm()
                segment = self._sealing.put(draft, self._tail)
            except Fenced as fenced:
                raise self._fence(str(fenced)) from None
            except FrazilError:
                self.stats.seal_failures += 1
                raise
            self._settle(segment)
            self.stats.segments += 1
            self.stats.sealed_records += segment.end - segment.first
            self.stats.sealed_bytes += draft.data.size
            self.stats.seal_seconds += time.perf_counter() - started
            return segment

    def seal_all(self) -> None:
        while self.seal():
            pass

    def _prepare(self) -> Draft | None:
        """Make the next segment. The WAL has its records on disk before anybody can see it in the store."""
        try:
            with self._committer.lock:
                entries = self._tail.first(self.options.seal_rows, self.options.seal_bytes)
                if not entries:
                    return None
                writer, epochs = self._committer.writer, self._tail.epochs
                requests = self._committer.requests_below(entries[-1].end)
            syncing = self._executor.submit(self._committer.sync)
            try:
                draft = self._sealing.prepare(entries, requests, writer, epochs)
            finally:
                syncing.result()
        except MemoryError as error:
            self.stats.seal_failures += 1
            raise WriteFailed(
                f"{self.topic}/{self.partition}: there is not enough memory to seal now. It is tried again, and "
                f"nothing is lost."
            ) from error
        except (pa.ArrowException, ValueError, TypeError, LogCorrupted, LogVersionUnsupported) as error:
            broken = LogBroken(
                f"{self.topic}/{self.partition}: the records from offset {self._tail.start} to {self._tail.end} "
                f"cannot be sealed: {error}. They are kept in the WAL, if there is one."
            )
            with self._committer.lock:
                self._committer.stopped = broken
                self._fail_unsealed(broken)
            raise broken.again() from error
        self._sealing.draft = draft
        return draft

    def _settle(self, segment: Segment) -> None:
        with self._committer.lock:
            self._tail.seal(segment.end)
            left = self._tail.end > segment.end
            self._waiting_since = self._world.clock.monotonic() if left else None
            while self._unsealed and self._unsealed[0].acked_at <= segment.end:
                self._unsealed.popleft().finish()
        self._dropping.result()
        self._dropping = self._executor.submit(self._committer.drop_sealed, segment.end)

    def _fence(self, why: str) -> FrazilError:
        """Stop because another writer came first. A WAL keeps its records for `repair`, memory does not."""
        where = f"{self.topic}/{self.partition}"
        error: FrazilError
        if self.options.ack == "local":
            error = PartitionTaken(
                f"{where}: {why}. Another writer owns this partition, so it stops here; records that are only in its "
                f"WAL are kept, and `frazil log repair` appends them to a new partition."
            )
        else:
            error = PartitionFenced(f"{where}: {why}. Unacknowledged records were dropped; send them again.")
        with self._committer.lock:
            if self.options.ack == "object":
                self._restart()
            self._committer.stopped = error
            self._fail_unsealed(error)
        self._tail.freed.notify()
        return error

    def _fail_unsealed(self, error: FrazilError) -> None:
        while self._unsealed:
            self._unsealed.popleft().fail(error)

    def _restart(self) -> None:
        self._index.refresh()
        start = start_from_store(self._index, self._world, self.options.sources)
        self._sealing.restart(start)
        self._committer.restart(start)
        self._tail.reset(start.sealed_end, start.epochs, start.writer)
        self._waiting_since = None
        self._hurried_to = 0
        with self._queue.lock:
            self._queue.generation = self._committer.generation

    def resume(self) -> Feeders:
        """Accept appends again after `PartitionFenced`. Return the positions from which the sources go on."""
        with self._committer.lock:
            if isinstance(self._committer.stopped, PartitionFenced):
                self._committer.stopped = None
        return self.feeders

    # --- reading -------------------------------------------------------------------------------------------

    @property
    def feeders(self) -> Feeders:
        """The positions of sources and producers as of the newest record."""
        return self._committer.feeders()

    @property
    def stopped(self) -> FrazilError | None:
        """The reason why appends are refused, if they are."""
        return self._committer.stopped or self._refusing

    @property
    def tail(self) -> Tail:
        return self._tail

    @property
    def next_offset(self) -> int:
        return self._tail.end

    @property
    def sealed_end(self) -> int:
        return self._tail.start

    def view(self, start: int = 0) -> TailView:
        return self._tail.view(start)

    # --- stopping ------------------------------------------------------------------------------------------

    def sync(self) -> None:
        self._committer.sync()

    def refuse(self) -> None:
        """Accept no more appends. Those under way are finished."""
        with self._queue.lock:
            self._refusing = ShutdownError(f"{self.topic}/{self.partition} is shutting down.")
        self._tail.freed.notify()

    def close(self) -> None:
        """Finish the appends under way and release the partition. What is not sealed stays in the WAL."""
        self.refuse()
        self.drain()
        with self._seal_lock:
            try:
                self._dropping.result()
                self._committer.close()
            finally:
                self._lock.release()
        with self._committer.lock:
            self._fail_unsealed(ShutdownError(f"{self.topic}/{self.partition} was closed before sealing."))

    def drain(self) -> None:
        """Commit the groups that are queued."""
        while True:
            with self._queue.lock:
                if self._queue.lead():
                    break
            self._world.clock.sleep(0.001)
        self._lead()
