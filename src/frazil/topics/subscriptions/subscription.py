"""Runs one subscription: it reads ahead, delivers messages, and stores acknowledgements.

Everything happens in one event loop. A consumer gets messages only when it asks, so a slow one holds no more than its
window. Reading ahead is limited for each partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

from frazil.clock import World
from frazil.errors import (
    ConfigError,
    FrazilError,
    NotDelivered,
    OffsetGone,
    RequestError,
    ShutdownError,
    SubscriptionFenced,
    SubscriptionMismatch,
    SubscriptionNotFound,
    TopicNotFound,
)
from frazil.failpoints import failpoint
from frazil.store import ObjectStore
from frazil.topics.messages import Message, MessageRun
from frazil.topics.read.memory_budget import MemoryBudget
from frazil.topics.subscriptions.ackfile import LaneKey
from frazil.topics.subscriptions.checkpoints import Ownership, newest
from frazil.topics.subscriptions.consumer import Consumer
from frazil.topics.subscriptions.dead_letters import dead_letters
from frazil.topics.subscriptions.delivery import Delivery, FailedMessages
from frazil.topics.subscriptions.epoch_end import OpenCursor
from frazil.topics.subscriptions.journal import Journal
from frazil.topics.subscriptions.key_routing import Accepts
from frazil.topics.subscriptions.options import Options
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.read_ahead import ReadAhead
from frazil.topics.subscriptions.report import SubscriptionReport, build_report
from frazil.topics.subscriptions.subscription_name import SubscriptionName

InitialProgress = Callable[[], Awaitable[Mapping[int, Progress]]]
"""Returns where a new subscription begins, by partition."""
StoreDeadLetter = Callable[[str, Message], Awaitable[object]]
"""Stores a message in the dead-letter topic once for each id, or raises."""

MAX_CONCURRENT_READS = 10
MOST_REASON = 1000
"""The reason of a refusal is cut to this many characters, because it becomes part of the dead letter."""

logger = logging.getLogger(__name__)


class Subscription:
    def __init__(
        self,
        full_name: SubscriptionName,
        options: Options,
        *,
        owner: Ownership,
        journal: Journal,
        cursors: OpenCursor,
        progress_by_partition: Mapping[int, Progress],
        restored: bool,
        world: World,
        store_dead_letter: StoreDeadLetter | None,
        reads: asyncio.Semaphore,
        checkpoint_seconds: float,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.full_name = full_name
        self.options = options
        self._owner = owner
        self._journal = journal
        self._cursors = cursors
        self._world = world
        self._store_dead_letter = store_dead_letter
        self._reads = reads
        self._checkpoint_seconds = checkpoint_seconds
        self._loop = asyncio.get_running_loop()
        self._delivery = Delivery(options, memory=memory)
        self._consumers: dict[int, Consumer] = {}
        self._problems: dict[int, FrazilError] = {}
        """These partitions cannot be read on, for this reason, until somebody decides."""
        self._stopped: FrazilError | None = None
        self._dirty = dict(progress_by_partition) != dict(owner.last_written.partitions)
        """Something is acknowledged that is in no checkpoint."""
        self._putting = asyncio.Lock()
        self._moving = asyncio.Lock()
        """Whoever moves the readers holds this lock."""
        self._pumping = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._ahead: dict[int, ReadAhead] = {}
        for partition, progress in progress_by_partition.items():
            self._add(partition, progress, restored=restored)
        self._spawn(self._checkpoint_now_and_then())

    @classmethod
    async def open(
        cls,
        full_name: SubscriptionName,
        options: Options,
        *,
        store: ObjectStore,
        journal: Journal,
        cursors: OpenCursor,
        initial_progress: InitialProgress,
        partitions: Iterable[int] = (),
        topic_generation: int = 1,
        world: World | None = None,
        process: str = "",
        store_dead_letter: StoreDeadLetter | None = None,
        reads: asyncio.Semaphore | None = None,
        checkpoint_seconds: float = 10.0,
        memory: MemoryBudget | None = None,
    ) -> Subscription:
        """Takes the subscription over from another process, or creates it.

        `partitions` has all that the topic has now. One that was added after the subscription was created is read
        from its start. `reads` limits concurrent reads, and `memory` limits memory, of all subscriptions that share
        them.
        """
        if options.poison == "dead_letter" and store_dead_letter is None:
            raise ConfigError(f"The {full_name} is to have dead letters, but no topic for them is set.")
        world = world or World()
        owner = Ownership(store, full_name, world, process or "another process")
        while True:
            former = await asyncio.to_thread(newest, store, full_name)
            is_new = former is None or not former.lasts(topic_generation)
            if former is not None and former.topic_generation > topic_generation:
                raise TopicNotFound(
                    f"Topic {full_name.namespace}.{full_name.topic} was deleted here, and created again elsewhere."
                )
            if former is not None and not is_new and former.kind != options.kind:
                raise SubscriptionMismatch(
                    f"The {full_name} is of type {former.kind}, not {options.kind}. Use that type, or delete it "
                    f"first."
                )
            progress_by_partition = dict(await initial_progress()) if is_new else {}
            if await asyncio.to_thread(
                owner.take, former, str(options.kind), progress_by_partition, topic_generation
            ):
                break
        written = owner.last_written
        progress_by_partition = {partition: progress.copy() for partition, progress in written.partitions.items()}
        for partition, known in journal.recovered(full_name, written.generation).items():
            progress_by_partition.setdefault(partition, Progress()).join(known)
        for partition in partitions:
            progress_by_partition.setdefault(partition, Progress())
        journal.forget(full_name, but=written.generation)
        return cls(
            full_name,
            options,
            owner=owner,
            journal=journal,
            cursors=cursors,
            progress_by_partition=progress_by_partition,
            restored=not is_new,
            world=world,
            store_dead_letter=store_dead_letter,
            reads=reads or asyncio.Semaphore(MAX_CONCURRENT_READS),
            checkpoint_seconds=checkpoint_seconds,
            memory=memory,
        )

    # --- consumers ---------------------------------------------------------------------------------------

    def join(self, name: str, accepts: Accepts | None = None, window: int | None = None) -> Consumer:
        """Adds a consumer, or a new session of the one that has this name.

        In a key-shared subscription `accepts` says which keys it wants; messages that no consumer wants count as
        acknowledged. `window` limits its unacknowledged messages.
        """
        self._check()
        number, replaced = self._delivery.join(name, self._now(), accepts, window)
        if replaced is not None:
            self._consumers.pop(replaced).end(
                f"Another consumer named {name!r} has taken this session over. Use different names to consume side "
                f"by side."
            )
        consumer = self._consumers[number] = Consumer(self, number, name)
        self._pump_soon()
        return consumer

    def leave(self, consumer: Consumer) -> None:
        if self._consumers.pop(consumer.number, None) is not None:
            self._delivery.leave(consumer.number, self._now())
            consumer.end(f"Consumer {consumer.name!r} has left.")
            self._pump_soon()

    def request(self, consumer: Consumer, rows: int) -> None:
        """Delivers up to `rows` messages to a consumer, now and later, until it asks for something else."""
        self._delivery.request(consumer.number, rows)
        if rows:
            self._pump()

    async def ack(self, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Acknowledges ranges (partition, start, end). Returns when that is stored; after an error, acknowledge
        again.

        If something was never delivered, nothing is acknowledged.
        """
        self._check()
        ranges = list(ranges)
        for partition, start, end in ranges:
            try:
                self._delivery.check(partition, start, end)
            except NotDelivered:
                if not await self._delivered_before(partition, end):
                    raise
        self._check()
        stored = []
        for partition, start, end in ranges:
            self._delivery.ack(partition, start, end, self._now(), known=True)
            stored.append(self._record(partition, start, end))
        await self._stored(stored)

    async def ack_until(self, partition: int, end: int) -> None:
        """Acknowledges all messages of a partition below `end`."""
        self._check()
        start, end = self._delivery.ack_until(partition, end, self._now())
        await self._stored([self._record(partition, start, end)])

    async def nack(
        self,
        partition: int,
        start: int,
        end: int,
        *,
        delay: float = 0.0,
        reason: str = "",
        consumer: Consumer | None = None,
    ) -> None:
        """Has messages delivered again, at the earliest after `delay` seconds."""
        self._check()
        number = consumer.number if consumer else None
        reason = reason[:MOST_REASON]
        try:
            self._delivery.nack(partition, start, end, self._now(), delay=delay, reason=reason, consumer=number)
        except NotDelivered:
            # Messages that a former process delivered are delivered again anyway.
            if not await self._delivered_before(partition, end):
                raise
        self._pump_soon()

    async def _delivered_before(self, partition: int, end: int) -> bool:
        """Returns whether a former process may have delivered everything below `end`, while this one has read less.

        Consumers answer messages that they got before a restart. But nobody may acknowledge messages of the future.
        """
        backlog = self._delivery.backlogs.get(partition)
        if backlog is None or not backlog.restored or end <= 0:
            return False
        if end <= backlog.position:
            return True
        cursor = await self._cursors(partition, end - 1, backlog.progress.epoch)
        return await cursor.read(1, 1) is not None

    def _record(self, partition: int, start: int, end: int) -> asyncio.Future[None]:
        self._dirty = True
        self._pump_soon()
        return self._journal.record(self._key(partition), [(start, end)])

    async def _stored(self, futures: Iterable[asyncio.Future[None]]) -> None:
        for future in dict.fromkeys(futures):
            await asyncio.shield(future)

    # --- partitions --------------------------------------------------------------------------------------

    @property
    def partitions(self) -> list[int]:
        return sorted(self._delivery.backlogs)

    def add_partition(self, partition: int) -> None:
        """Adds a partition that the topic did not have before."""
        self._check()
        if partition not in self._delivery.backlogs:
            self._add(partition, Progress(), restored=False)

    async def skip_gone(self, partition: int) -> int:
        """Continues after messages that are gone, and returns the offset of the first that is left."""
        async with self._moving:
            self._check()
            problem = self._problems.get(partition)
            if not isinstance(problem, OffsetGone):
                raise RequestError(f"The {self.full_name} misses nothing of partition {partition}.")
            start, end = self._delivery.skip(partition, problem.first_left, self._now())
            stored = self._record(partition, start, end)
            await self._read_anew(partition)
            await self._stored([stored])
            return problem.first_left

    async def seek(self, partition: int, offset: int, epoch: str = "") -> None:
        """Continues at another offset: messages below count as acknowledged, and no others do."""
        async with self._moving:
            self._check()
            if partition not in self._delivery.backlogs:
                raise RequestError(f"The {self.full_name} has no partition {partition}.")
            await self._stop_reading(partition)
            self._delivery.restart(partition, offset, epoch, self._now())
            stored = self._store_whole(partition)
            await self._read_anew(partition)
            await self._stored([stored])

    def _add(self, partition: int, progress: Progress, *, restored: bool) -> None:
        self._delivery.add_partition(partition, progress, restored=restored)
        self._journal.attach(self._key(partition), progress)
        ahead = self._ahead[partition] = ReadAhead(
            self.full_name,
            partition,
            delivery=self._delivery,
            cursors=self._cursors,
            reads=self._reads,
            take=self._take,
            report=self._report,
        )
        self._readers[partition] = self._spawn(ahead.run())

    def _store_whole(self, partition: int) -> asyncio.Future[None]:
        """Stores the whole progress, after something of it was taken back."""
        self._journal.attach(self._key(partition), self._delivery.backlogs[partition].progress)
        return self._record(partition, 0, 0)

    def _key(self, partition: int) -> LaneKey:
        return LaneKey(self.full_name, self._owner.last_written.generation, partition)

    async def _stop_reading(self, partition: int) -> None:
        reader = self._readers[partition]
        reader.cancel()
        await asyncio.wait([reader])

    async def _read_anew(self, partition: int) -> None:
        await self._stop_reading(partition)
        self._problems.pop(partition, None)
        self._readers[partition] = self._spawn(self._ahead[partition].run())

    # --- reading ahead -----------------------------------------------------------------------------------

    def _take(self, records: MessageRun) -> None:
        if records.first > self._delivery.next_offset(records.partition):
            # Something before these messages was dropped while they were read. It is read again first, and then
            # these.
            return
        if self._delivery.feed(records, self._now()):
            logger.warning(
                "a new epoch began; messages that did not last are forgotten, what stands there now is delivered",
                extra={
                    "subscription": str(self.full_name),
                    "partition": records.partition,
                    "epoch": records.epoch,
                    "offset": records.first,
                },
            )
            self._store_whole(records.partition)
        self._pump()

    def _report(self, partition: int, error: FrazilError) -> None:
        logger.error(
            "a partition cannot be read on",
            extra={"subscription": str(self.full_name), "partition": partition, "reason": str(error)},
        )
        self._problems[partition] = error
        for consumer in self._consumers.values():
            consumer.wake()

    @property
    def problems(self) -> Mapping[int, FrazilError]:
        """Returns the partitions that cannot be read on, and why."""
        return self._problems

    # --- handing out -------------------------------------------------------------------------------------

    def _pump_soon(self) -> None:
        """Delivers once for all that happens in this turn of the event loop."""
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if self._stopped:
            return
        now = self._now()
        for run in self._delivery.hand_out(now):
            self._consumers[run.consumer].give(run)
        for dropped in self._delivery.take_dropped():
            logger.warning(
                "gave up messages that failed too often",
                extra={"subscription": str(self.full_name), "partition": dropped[0], "offset": dropped[1]},
            )
            self._record(*dropped)
        for passed_over in self._delivery.take_unwanted():
            self._record(*passed_over)
        for dead_letter in self._delivery.take_dead_letters():
            self._spawn(self._move_to_dead_letters(dead_letter))
        for ahead in self._ahead.values():
            ahead.notify_room()
        self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        due = self._delivery.next_tick()
        if self._timer:
            self._timer.cancel()
        self._timer = None if due is None else self._loop.call_later(max(0.0, due - now), self._pump)

    async def _move_to_dead_letters(self, dead_letter: FailedMessages) -> None:
        assert self._store_dead_letter is not None
        try:
            for name, message in dead_letters(dead_letter, self.full_name, self._owner.last_written.generation):
                await self._store_dead_letter(name, message)
        except FrazilError as error:
            logger.warning(
                "cannot store a dead letter; trying again",
                extra={
                    "subscription": str(self.full_name),
                    "partition": dead_letter.partition,
                    "offset": dead_letter.first,
                    "reason": str(error),
                },
            )
            self._delivery.dead_letter_failed(dead_letter, self._now())
            self._pump_soon()
        else:
            failpoint("subscriptions.buried")
            self._delivery.dead_letter_stored(dead_letter, self._now())
            self._record(dead_letter.partition, dead_letter.first, dead_letter.end)

    def _now(self) -> float:
        return self._world.clock.monotonic()

    # --- checkpoints -------------------------------------------------------------------------------------

    async def _checkpoint_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._checkpoint_seconds)
            try:
                await self.checkpoint()
            except SubscriptionFenced:
                return
            except FrazilError as error:
                logger.warning(
                    "no checkpoint of a subscription; trying again",
                    extra={"subscription": str(self.full_name), "reason": str(error)},
                )

    async def checkpoint(self) -> None:
        """Writes a checkpoint if something new is acknowledged."""
        self._check()
        # The caller may give up, but a put that began must end before the next one.
        put = self._loop.create_task(self._put_checkpoint())
        put.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(put)

    async def _put_checkpoint(self) -> None:
        async with self._putting:
            if not self._dirty:
                return
            self._dirty = False
            partitions = {
                partition: backlog.progress.copy() for partition, backlog in self._delivery.backlogs.items()
            }
            try:
                await asyncio.to_thread(self._owner.put, partitions)
            except SubscriptionFenced as error:
                self._stop(error)
                raise
            except BaseException:
                self._dirty = True
                raise

    # --- the end -----------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a subscription failed", extra={"subscription": str(self.full_name)}, exc_info=error)
            self._stop(FrazilError(f"The {self.full_name} failed: {error!r}. Open it again."))

    def _check(self) -> None:
        if self._stopped:
            raise self._stopped.again()

    def _stop(self, why: FrazilError) -> None:
        """Stops everything. Later calls raise `why`."""
        if self._stopped:
            return
        self._stopped = why
        self._delivery.account.close()
        if self._timer:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for consumer in self._consumers.values():
            consumer.fail(why)

    @property
    def stopped(self) -> FrazilError | None:
        return self._stopped

    def has(self, consumer: str) -> bool:
        """Returns whether a consumer of this name has joined."""
        return any(each.name == consumer for each in self._consumers.values())

    async def close(self) -> None:
        """Stops and writes a checkpoint. The next process delivers unacknowledged messages again."""
        await self._end()
        try:
            if self._stopped is None or isinstance(self._stopped, ShutdownError):
                await self._last_checkpoint()
        finally:
            await self._journal.flush()

    async def _last_checkpoint(self) -> None:
        await self._put_checkpoint()
        for partition, backlog in self._delivery.backlogs.items():
            self._journal.detach(self._key(partition), backlog.progress)

    async def delete(self) -> None:
        """Deletes the subscription and all that is stored of it."""
        self._check()
        self._stop(SubscriptionNotFound(f"The {self.full_name} was deleted."))
        await self._end()
        async with self._putting:
            self._dirty = False
            await asyncio.to_thread(self._owner.delete)
        self._journal.forget(self.full_name)

    async def abandon(self, why: FrazilError) -> None:
        """Stops without a checkpoint, because the topic is gone."""
        self._stop(why)
        await self._end()
        self._journal.forget(self.full_name)

    async def _end(self) -> None:
        self._stop(ShutdownError(f"The {self.full_name} is closed here."))
        if tasks := list(self._tasks):
            await asyncio.wait(tasks)

    def stats(self, ends: Mapping[int, int]) -> SubscriptionReport:
        """`ends` has the offset after the newest message of each partition."""
        return build_report(self.full_name, self._delivery, ends, self._problems)
