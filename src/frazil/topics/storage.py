"""Stores the messages of topics in the log, and reads them from wherever they are."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

import pyarrow as pa

from frazil.config.sections.section import MIB
from frazil.errors import FrazilError, InvalidMessage, InvalidTopic, RequestError, ShutdownError, TopicNotFound
from frazil.lake.catalog.lake import Lake
from frazil.log.log import Log
from frazil.log.positions import Origin
from frazil.log.positions import Sequence as Numbered
from frazil.log.topics.generations import Creation, Dispatch
from frazil.log.writer.writer import PartitionWriter
from frazil.topics import lifecycle
from frazil.topics.interface import DeletedTopic, Producer, StoredRun, StoreResult, SubscriptionStats, TopicStats
from frazil.topics.message_limits import MOST_BYTES, check_bounds
from frazil.topics.messages import LARGEST, MESSAGE, Message, MessageRun, conform_messages, to_batch, with_producer
from frazil.topics.names import TopicName, parse_name
from frazil.topics.read.cursor import PartitionCursor
from frazil.topics.read.memory_budget import MemoryBudget
from frazil.topics.read.shared_files import PartitionFiles, SharedFiles
from frazil.topics.read.starts import EARLIEST, Start
from frazil.topics.read.stream import stream
from frazil.topics.read.tail import MessageTail
from frazil.topics.read.topic_handle import TopicHandle
from frazil.topics.routing import PartitionShare, partition_of, split_by_key
from frazil.topics.stats import committed_positions, topic_stats, write_positions

T = TypeVar("T")

SubscriptionStatsOf = Callable[[str], Awaitable[Mapping[str, SubscriptionStats]]]
"""Returns the subscriptions of a topic and their lag."""


async def _none(_: str) -> Mapping[str, SubscriptionStats]:
    return {}


class OpenTopic:
    """Is a topic that this process uses."""

    def __init__(self, handle: TopicHandle, creation: Creation, shared: SharedFiles) -> None:
        self.handle = handle
        self.creation = creation
        self._shared = shared
        self.partitions = creation.partitions
        self.writers: dict[int, PartitionWriter] = {}
        self.opening = asyncio.Lock()
        self.turn = itertools.count()
        self.deleting = False
        self._tails: dict[int, MessageTail] = {}
        self._files: dict[int, PartitionFiles] = {}

    def files(self, partition: int) -> PartitionFiles:
        if partition not in self._files:
            self._files[partition] = self._shared.of(self.handle, self.creation.generation, partition)
        return self._files[partition]

    def tail(self, partition: int) -> MessageTail:
        if partition not in self._tails:
            log, topic = self.handle.log, self.handle.topic
            self._tails[partition] = MessageTail(topic, partition, lambda: log.tail(topic, partition))
        return self._tails[partition]

    def check(self, partition: int) -> int:
        if not 0 <= partition < self.partitions:
            raise InvalidTopic(
                f"Topic {self.handle.topic!r} has no partition {partition}: it has {self.partitions}, from 0 on."
            )
        return partition


class TopicStorage:
    """Belongs to one event loop. `log` and `lake` belong to the caller and stay open.

    `max_concurrent_reads` limits how many reads of files happen at a time, and so the threads. `prefetch` limits how
    many runs of messages a stream reads ahead in each partition. The settings have the defaults.
    """

    def __init__(
        self,
        log: Log,
        lake: Lake | None = None,
        *,
        max_concurrent_reads: int | None = None,
        prefetch: int | None = None,
        subscriptions: SubscriptionStatsOf = _none,
    ) -> None:
        self._log = log
        self._lake = lake or Lake(log.config)
        self._home = log.config.lake.namespace
        reading = log.config.messages
        self._prefetch = prefetch or reading.prefetch_size
        self._subscriptions = subscriptions
        self._executor = ThreadPoolExecutor(
            max_concurrent_reads or reading.max_concurrent_reads, thread_name_prefix="frazil-topics"
        )
        limit = reading.max_memory_mb * MIB
        self._shared = SharedFiles(self._executor, limit // 2)
        self.memory = MemoryBudget(limit // 2)
        """It limits what receivers of messages hold in memory."""
        self._names: dict[str, TopicName] = {}
        self._topics: dict[str, OpenTopic] = {}
        self._creating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """These are the locks of topics that are being created or deleted."""
        self._pending = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self._stopping = False

    # --- topics --------------------------------------------------------------------------------------------

    def _topic_lock(self, name: TopicName) -> asyncio.Lock:
        return self._creating.setdefault(name.topic, asyncio.Lock())

    def name(self, text: str) -> TopicName:
        """Parses the name of a topic, and remembers the result."""
        if (known := self._names.get(text)) is None:
            known = parse_name(text, self._home)
            if len(self._names) < _REMEMBERED_NAMES:
                self._names[text] = known
        return known

    async def create_topic(self, topic: str, partitions: int = 1) -> int:
        """Creates a topic unless it exists, and returns the number of its partitions, which this never changes."""
        name = self.name(topic)
        if name.partition is not None:
            raise InvalidTopic(
                f"{topic!r} cannot be created: names that end with -part-N mean partitions of {name.path}. Create "
                f"that with the number of partitions it is to have."
            )
        self._check_open()
        async with self._topic_lock(name):
            handle = self._handle(name)
            creation = await asyncio.to_thread(lifecycle.create, handle, partitions)
            self._topics.setdefault(name.topic, OpenTopic(handle, creation, self._shared))
        return creation.partitions

    async def initialize_topic(self, topic: str, partitions: int = 1) -> int:
        """Creates a topic like `create_topic`, and opens all its partitions for writing."""
        count = await self.create_topic(topic, partitions)
        await self.prepare(topic)
        return count

    async def ensure_topic(self, topic: str, partitions: int, dispatch: Dispatch = "reliable") -> Creation:
        """Creates the topic unless it exists, and gives it at least this many partitions."""
        name = self.name(topic)
        known = self._topics.get(name.topic)
        if known is None or known.partitions < partitions or known.creation.dispatch != dispatch:
            self._check_open()
            async with self._topic_lock(name):
                handle = self._handle(name)
                made = await asyncio.to_thread(lifecycle.ensure, handle, partitions, dispatch)
                known = self._topics.setdefault(name.topic, OpenTopic(handle, made, self._shared))
                known.creation, known.partitions = made, made.partitions
        return known.creation

    async def prepare(self, topic: str) -> None:
        """Opens the topic, or the partition that is named, for writing. Its readers are then notified of messages at
        once."""
        name = self.name(topic)
        opened = await self._topic(name)
        partitions = range(opened.partitions) if name.partition is None else [opened.check(name.partition)]
        for partition in partitions:
            await self._writer(opened, partition)

    async def list_topics(self) -> Sequence[str]:
        return await asyncio.to_thread(self._log.topics)

    async def delete_topic(self, topic: str, *, drop_table: bool) -> DeletedTopic:
        """Deletes the topic with its records in the log. Its table is dropped, or kept with the rows it has.

        Messages that were not moved to the table yet are lost in both cases. A topic of the same name that is created
        later begins with new offsets and a new table.
        """
        name = self.name(topic)
        if name.partition is not None:
            raise InvalidTopic(
                f"{topic!r} is one partition of {name.path}: only all of them can be deleted together."
            )
        self._check_open()
        async with self._topic_lock(name):
            try:
                opened = await self._topic(name)
            except TopicNotFound:
                await asyncio.to_thread(lifecycle.finish_deletion, self._handle(name))
                raise
            opened.deleting = True
            try:
                return await self._delete(opened, drop_table)
            finally:
                self._topics.pop(name.topic, None)

    async def _delete(self, topic: OpenTopic, drop_table: bool) -> DeletedTopic:
        handle = topic.handle
        async with topic.opening:
            writers = [await self._opened(topic, partition) for partition in range(topic.partitions)]
            before = await self._reading(lambda: topic_stats(handle, topic.partitions, {}))
            for writer in writers:
                await asyncio.to_thread(self._log.release, writer)
            ends = {writer.partition: writer.next_offset for writer in writers}
            await asyncio.to_thread(lifecycle.delete, handle, topic.creation, ends, drop_table=drop_table)
        messages = before.message_count
        return DeletedTopic(handle.topic, messages, messages if drop_table else before.hot_messages)

    async def _topic(self, name: TopicName) -> OpenTopic:
        """Raises `TopicNotFound` if there is no such topic."""
        if (known := self._topics.get(name.topic)) is not None:
            return known
        handle = self._handle(name)
        creation = await asyncio.to_thread(lifecycle.existing, handle)
        return self._topics.setdefault(name.topic, OpenTopic(handle, creation, self._shared))

    def _handle(self, name: TopicName) -> TopicHandle:
        return TopicHandle(name.topic, self._log, self._lake)

    # --- storing -------------------------------------------------------------------------------------------

    async def store(
        self,
        topic: str,
        messages: Sequence[Message] | pa.RecordBatch,
        *,
        partition: int | None = None,
        routing_key: str | None = None,
        producer: Producer | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> StoreResult:
        """Stores messages, and returns when they are as durable as the topic's settings say.

        They go to `partition`, or to the partition of `routing_key`, or each to that of its own key. Those without a
        key go together to the next partition in turn. Either all messages for one partition are stored, or none.

        When a `producer` repeats a request with the same number, because an acknowledgement was lost, it is stored
        once, and the offsets are those of the first time. The numbers must grow; the newest few of each partition are
        remembered.
        """
        name = self.name(topic)
        opened = self._topics.get(name.topic) or await self._topic(name)
        now = self._log.world.clock.now_ms()
        batch = conform_messages(messages, now) if isinstance(messages, pa.RecordBatch) else to_batch(messages, now)
        if not len(batch):
            raise InvalidMessage(f"Nothing to store in topic {opened.handle.topic!r}: no messages were given.")
        check_bounds(batch, most_bytes)
        origin = None
        if producer is not None:
            origin = _origin(producer)
            batch = with_producer(batch, *producer)
        if name.partition is not None:
            if partition not in (None, name.partition):
                raise RequestError(f"{topic!r} is partition {name.partition}, not {partition}: give one of them.")
            partition = name.partition
        if partition is not None:
            opened.check(partition)
        elif routing_key is not None:
            partition = partition_of(routing_key, opened.partitions)
        elif opened.partitions == 1:
            partition = 0
        elif batch.column("routing_key").null_count < len(batch):
            return await self._store_shares(opened, batch, origin, producer)
        else:
            partition = self._next_partition(opened, producer)
        return StoreResult((await self._append(opened, partition, batch, origin),))

    def _next_partition(self, topic: OpenTopic, producer: Producer | None) -> int:
        """Returns the next partition in turn. A producer always gets the same one, so that a repeated request goes
        there too."""
        return (
            next(topic.turn) % topic.partitions if producer is None else partition_of(producer.id, topic.partitions)
        )

    async def _store_shares(
        self, topic: OpenTopic, batch: pa.RecordBatch, origin: Origin | None, producer: Producer | None
    ) -> StoreResult:
        keys = batch.column("routing_key")
        shares = split_by_key(keys, topic.partitions, self._next_partition(topic, producer) if keys.null_count else 0)

        async def one(share: PartitionShare) -> StoredRun:
            rows = batch if len(shares) == 1 else batch.take(pa.array(share.rows))
            run = await self._append(topic, share.partition, rows, origin)
            return run._replace(places=tuple(share.rows.tolist()))

        outcomes = await asyncio.gather(*map(one, shares), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return StoreResult(tuple(outcome for outcome in outcomes if isinstance(outcome, StoredRun)))

    async def _append(
        self, topic: OpenTopic, partition: int, batch: pa.RecordBatch, origin: Origin | None
    ) -> StoredRun:
        self._check_open()
        self._pending += 1
        self._settled.clear()
        try:
            writer = topic.writers.get(partition) or await self._writer(topic, partition)
            ack = await writer.append_async(batch, origin)
        except ShutdownError:
            if topic.deleting:
                raise lifecycle.topic_deleted(topic.handle.topic) from None
            raise
        finally:
            self._pending -= 1
            if not self._pending:
                self._settled.set()
        if ack.rows != len(batch):
            raise InvalidMessage(
                f"The producer sent {len(batch)} messages under a number under which it had sent {ack.rows} before, "
                f"to partition {partition} of topic {topic.handle.topic!r}. Each append needs a number of its own."
            )
        return StoredRun(partition, ack.offset, ack.rows, ack.epoch, ack.duplicate)

    async def _writer(self, topic: OpenTopic, partition: int) -> PartitionWriter:
        async with topic.opening:
            if topic.deleting:
                raise lifecycle.topic_deleted(topic.handle.topic)
            return await self._opened(topic, partition)

    async def _opened(self, topic: OpenTopic, partition: int) -> PartitionWriter:
        writer = topic.writers.get(partition)
        if writer is None:
            name = topic.handle.topic
            writer = await asyncio.to_thread(self._log.writer, name, MESSAGE, partition=partition)
            topic.writers[partition] = writer
        return writer

    # --- reading -------------------------------------------------------------------------------------------

    async def cursor(self, topic: str, partition: int | None = None, start: Start = EARLIEST) -> PartitionCursor:
        """Opens a reader of one partition, which may also be given by the name."""
        name = self.name(topic)
        opened = await self._topic(name)
        number = name.partition if partition is None else partition
        if number is None:
            raise RequestError(f"Which partition of {topic!r} is to be read? It has {opened.partitions}, from 0 on.")
        return await self._cursor(opened, number, start)

    async def _cursor(self, topic: OpenTopic, partition: int, start: Start) -> PartitionCursor:
        topic.check(partition)
        cursor = PartitionCursor(topic.handle, partition, topic.tail(partition), topic.files(partition))
        await cursor.begin(start)
        return cursor

    async def create_message_stream(
        self, topic: str, start: Start = EARLIEST, *, follow: bool = True
    ) -> AsyncIterator[MessageRun]:
        """Yields all messages from `start` on, in order within each partition, and then new ones.

        Without `follow` it ends where the topic ends now. If the topic is named with a partition, only that is read.
        """
        name = self.name(topic)
        opened = await self._topic(name)
        chosen = range(opened.partitions) if name.partition is None else [name.partition]
        cursors = [await self._cursor(opened, partition, start) for partition in chosen]
        ends = None if follow else {cursor.partition: await cursor.end() for cursor in cursors}
        return stream(cursors, prefetch=self._prefetch, ends=ends)

    # --- state ---------------------------------------------------------------------------------------------

    async def partitions(self, topic: str) -> int:
        opened = await self._topic(self.name(topic))
        return opened.partitions

    async def partitions_now(self, topic: str) -> int:
        """Returns the number of partitions, and asks the store, because another process may have added some."""
        name = self.name(topic)
        opened = await self._topic(name)
        async with self._topic_lock(name):
            made = await asyncio.to_thread(lifecycle.existing, opened.handle)
            if made.generation == opened.creation.generation:
                opened.creation, opened.partitions = made, made.partitions
        return opened.partitions

    def known_generation(self, topic: str) -> int | None:
        """Returns the generation if this process knows it without asking the store."""
        opened = self._topics.get(self.name(topic).topic)
        return None if opened is None else opened.creation.generation

    async def generation(self, topic: str) -> int:
        """Returns the number of the topic's creation. A topic that is deleted and created again gets another."""
        opened = await self._topic(self.name(topic))
        return opened.creation.generation

    async def dispatch(self, topic: str) -> Dispatch:
        """Returns whether subscribers of the topic acknowledge its messages."""
        opened = await self._topic(self.name(topic))
        return opened.creation.dispatch

    async def get_write_position(self, topic: str) -> Mapping[int, int]:
        opened = await self._topic(self.name(topic))
        return await self._reading(lambda: write_positions(opened.handle, opened.partitions))

    async def get_committed_position(self, topic: str) -> Mapping[int, int]:
        opened = await self._topic(self.name(topic))
        return await self._reading(lambda: committed_positions(opened.handle, opened.partitions))

    async def get_topic_stats(self, topic: str) -> TopicStats:
        opened = await self._topic(self.name(topic))
        lags = await self._subscriptions(opened.handle.topic)
        return await self._reading(lambda: topic_stats(opened.handle, opened.partitions, lags))

    @property
    def shared_bytes(self) -> int:
        """Returns the memory of files that are read, for all readers together."""
        return self._shared.nbytes

    async def _reading(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    # --- stopping ------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._stopping:
            raise ShutdownError("The topics are shutting down: nothing is stored any more. Try again later.")

    async def shutdown(self) -> None:
        """Takes no more messages, waits for acknowledgements in progress, seals, and releases the writers.

        What cannot be sealed stays in the WAL, so nothing that was acknowledged is lost. The first error is raised at
        the end.
        """
        self._stopping = True
        await self._settled.wait()
        problem: FrazilError | None = None
        for topic in self._topics.values():
            async with topic.opening:
                for writer in topic.writers.values():
                    try:
                        await asyncio.to_thread(self._close, writer)
                    except FrazilError as error:
                        problem = problem or error
                topic.writers.clear()
        self._shared.close()
        self._executor.shutdown(wait=False, cancel_futures=True)
        if problem is not None:
            raise problem

    def _close(self, writer: PartitionWriter) -> None:
        writer.refuse()
        try:
            writer.drain()
            writer.seal_all()
        finally:
            self._log.release(writer)


_REMEMBERED_NAMES = 10_000


def _origin(producer: Producer) -> Origin:
    if not 0 <= producer.sequence <= LARGEST:
        raise InvalidMessage(f"{producer.sequence} cannot be a producer's number: it takes 0 to {LARGEST}.")
    try:
        return Origin(sequence=Numbered(producer.id, producer.sequence))
    except ValueError as error:
        raise InvalidMessage(f"{producer.id[:40]!r} cannot be the id of a producer: {error}") from error
