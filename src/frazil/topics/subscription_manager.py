"""Manages the subscriptions that this process serves. They are opened on demand, and handed over when it stops."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from frazil.errors import (
    FrazilError,
    RequestError,
    ShutdownError,
    SubscriptionMismatch,
    SubscriptionNotFound,
)
from frazil.log.log import Log
from frazil.topics.interface import Producer, SubscriptionStats
from frazil.topics.lifecycle import topic_deleted
from frazil.topics.message_limits import LETTER_BYTES
from frazil.topics.messages import Message
from frazil.topics.names import TopicName
from frazil.topics.read.cursor import Cursor
from frazil.topics.read.starts import LATEST, Start
from frazil.topics.storage import TopicStorage
from frazil.topics.subscriptions.checkpoints import Checkpoint, newest
from frazil.topics.subscriptions.journal import Journal
from frazil.topics.subscriptions.options import Kind, Options
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.report import SubscriptionReport
from frazil.topics.subscriptions.subscription import StoreDeadLetter, Subscription
from frazil.topics.subscriptions.subscription_name import PART, SubscriptionName, variants_of

DEAD_LETTERS = "_dead_letters"
GROWTH_SECONDS = 5.0
"""It checks this often whether topics have more partitions."""

logger = logging.getLogger(__name__)


class _OpenSubscription(NamedTuple):
    name: TopicName
    generation: int
    """This is the generation of the topic."""
    subscription: Subscription


class SubscriptionManager:
    """Belongs to one event loop. If a topic is named with a partition, the subscription is to that partition
    alone."""

    def __init__(self, storage: TopicStorage, log: Log, process: str) -> None:
        """`process` is a name of this process for people."""
        self._storage = storage
        self._log = log
        self._process = process
        self._journal: Journal | None = None
        self.problem: FrazilError | None = None
        """Nobody can subscribe for this reason: the journal of acknowledgements cannot be opened."""
        self._opening_journal = asyncio.Lock()
        self._open: dict[SubscriptionName, _OpenSubscription] = {}
        self._opening: defaultdict[SubscriptionName, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._reads = asyncio.Semaphore(log.config.messages.max_concurrent_reads)
        self._growing: asyncio.Task[None] | None = None
        self._closing = False

    async def _opened_journal(self) -> Journal:
        """Opens the journal with the first subscription, because only one process can have that of a data folder."""
        async with self._opening_journal:
            if self._journal is None:
                settings = self._log.config.log
                try:
                    self._journal = await Journal.open(
                        self._log.config.data_dir,
                        self._log.world,
                        sync=settings.sync,
                        sync_interval_seconds=settings.sync_interval_ms / 1000,
                    )
                except FrazilError as error:
                    self.problem = error
                    raise
                self.problem = None
                self._growing = asyncio.create_task(self._grow_now_and_then())
            return self._journal

    # --- opening -----------------------------------------------------------------------------------------------

    async def subscribe(
        self, topic: str, subscription: str, kind: Kind = Kind.EXCLUSIVE, start: Start = LATEST
    ) -> Subscription:
        """Returns the subscription, and takes it over or creates it if it is not open here. `start` is for a new
        one."""
        name = self._storage.name(topic)
        full_name = subscription_name(name, subscription)
        async with self._opening[full_name]:
            if (found := self._served(full_name)) is not None:
                if found.options.kind != kind:
                    raise SubscriptionMismatch(
                        f"The {full_name} is of type {found.options.kind}, not {kind}. Use that type, or another "
                        f"subscription."
                    )
                return found
            if await self._saved(name, full_name) is None:
                await self._check_variant(name, subscription)
            return await self._open_anew(name, full_name, kind, start)

    async def existing(self, topic: str, subscription: str) -> Subscription:
        """Returns a subscription that was created before, by any process."""
        name = self._storage.name(topic)
        full_name = subscription_name(name, subscription)
        async with self._opening[full_name]:
            return await self._existing(name, full_name)

    async def _existing(self, name: TopicName, full_name: SubscriptionName) -> Subscription:
        if (found := self._served(full_name)) is not None:
            return found
        if (last := await self._saved(name, full_name)) is not None:
            return await self._open_anew(name, full_name, Kind(last.kind), LATEST)
        parts = [] if name.partition is not None else await self._partition_names(name, full_name.subscription)
        hint = f"It has one for each partition: name {parts[0]} and so on." if parts else "Subscribe first."
        raise SubscriptionNotFound(f"There is no {full_name}. {hint}")

    async def exists(self, topic: str, subscription: str) -> bool:
        name = self._storage.name(topic)
        full_name = subscription_name(name, subscription)
        return self._served(full_name) is not None or await self._saved(name, full_name) is not None

    async def _partition_names(self, name: TopicName, subscription: str) -> list[str]:
        """Returns the partitions that have their own subscription of this name."""
        whole = subscription_name(name, subscription)
        forms = await asyncio.to_thread(lambda: list(variants_of(self._log.store, whole)))
        among = [name.part(partition) for _, partition in forms if partition is not None]
        return [each for each in among if await self.exists(each, subscription)]

    async def _check_variant(self, name: TopicName, subscription: str) -> None:
        """Checks that one name is not used both for a subscription to a topic and for one to each of its
        partitions."""
        if name.partition is None:
            if parts := await self._partition_names(name, subscription):
                raise SubscriptionMismatch(
                    f"Subscription {subscription!r} of topic {name.topic!r} is one for each partition, as Danube's "
                    f"clients have them. Name a partition, {parts[0]} or another, or choose another subscription."
                )
        elif await self.exists(name.path, subscription):
            raise SubscriptionMismatch(
                f"Subscription {subscription!r} is one to all of topic {name.topic!r}, where Danube's clients need "
                f"one for each partition. Delete it and create it with per_partition=true, or choose another."
            )

    def _served(self, full_name: SubscriptionName) -> Subscription | None:
        found = self._open.get(full_name)
        if found is None or found.subscription.stopped is not None:
            return None
        return found.subscription if found.generation == self._storage.known_generation(found.name.path) else None

    async def _saved(self, name: TopicName, full_name: SubscriptionName) -> Checkpoint | None:
        generation = await self._storage.generation(name.path)
        last = await asyncio.to_thread(newest, self._log.store, full_name)
        return last if last is not None and last.lasts(generation) else None

    async def _open_anew(
        self, name: TopicName, full_name: SubscriptionName, kind: Kind, start: Start
    ) -> Subscription:
        """Opens a subscription. The caller must hold its lock."""
        if (stale := self._open.pop(full_name, None)) is not None and stale.subscription.stopped is None:
            await stale.subscription.abandon(topic_deleted(name.topic))
        generation = await self._storage.generation(name.path)
        opened = await self._opened(name, full_name, kind, start, generation)
        try:
            if self._closing:
                raise ShutdownError("Subscriptions are closing here. Try again later.")
            if await self._storage.generation(name.path) != generation:
                raise topic_deleted(name.topic)
        except FrazilError as error:
            await opened.abandon(error)
            raise
        self._open[full_name] = _OpenSubscription(name, generation, opened)
        return opened

    async def _opened(
        self, name: TopicName, full_name: SubscriptionName, kind: Kind, start: Start, generation: int
    ) -> Subscription:
        count = await self._storage.partitions(name.path)
        if name.partition is not None and name.partition >= count:
            raise RequestError(f"{name.path} has no partition {name.partition}: it has {count}, from 0 on.")
        partitions = range(count) if name.partition is None else [name.partition]

        async def cursor(partition: int, offset: int, epoch: str) -> Cursor:
            found = await self._storage.cursor(name.path, partition, Start.at(offset))
            found.epoch = epoch or None
            return found

        async def initial_progress() -> Mapping[int, Progress]:
            cursors = [await self._storage.cursor(name.path, partition, start) for partition in partitions]
            return {each.partition: Progress(each.position) for each in cursors}

        options, store_dead_letter = self._after_failures(name, kind)
        return await Subscription.open(
            full_name,
            options,
            store=self._log.store,
            journal=await self._opened_journal(),
            cursors=cursor,
            initial_progress=initial_progress,
            partitions=partitions,
            topic_generation=generation,
            world=self._log.world,
            process=self._process,
            store_dead_letter=store_dead_letter,
            reads=self._reads,
            memory=self._storage.memory,
        )

    def _after_failures(self, name: TopicName, kind: Kind) -> tuple[Options, StoreDeadLetter]:
        """Returns how the topic's settings redeliver messages, and a function that stores those that fail for
        good."""
        settings = self._log.config.topic(name.topic).subscriptions
        options = Options.of(settings, kind)
        letters = self._storage.name(settings.dead_letter_topic or name.topic + DEAD_LETTERS).path
        if name.name.endswith(DEAD_LETTERS) or letters == name.path:
            options = replace(options, poison="block")

        async def store_dead_letter(producer_id: str, message: Message) -> None:
            await self._storage.create_topic(letters)
            await self._storage.store(letters, [message], producer=Producer(producer_id, 1), most_bytes=LETTER_BYTES)

        return options, store_dead_letter

    async def all_named(self, topic: str, subscription: str) -> list[Subscription]:
        """Returns the subscriptions of this name: one to the topic, or one to each partition, as Danube's clients
        have them."""
        name = self._storage.name(topic)
        parts = await self._partition_names(name, subscription) if name.partition is None else []
        return [await self.existing(each, subscription) for each in parts or [topic]]

    async def seek(self, topic: str, subscription: str, start: Start) -> None:
        """Moves a subscription: messages below `start` count as acknowledged, all others do not.

        If offsets are given for some partitions, the others stay where they are.
        """
        path = self._storage.name(topic).path
        for each in await self.all_named(topic, subscription):
            for partition in each.partitions:
                if isinstance(start.offset, Mapping) and partition not in start.offset:
                    continue
                cursor = await self._storage.cursor(path, partition, start)
                await each.seek(partition, cursor.position)

    # --- partitions that come ----------------------------------------------------------------------------------

    async def _grow_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(GROWTH_SECONDS)
            try:
                await self.grow()
            except Exception:
                logger.exception("cannot see whether topics have more partitions; trying again")

    async def grow(self) -> None:
        """Makes subscriptions read partitions that were added to their topics."""
        for name, _, subscription in list(self._open.values()):
            if name.partition is not None:
                continue
            try:
                count = await self._storage.partitions_now(name.path)
                if subscription.stopped is None:
                    for partition in range(count):
                        subscription.add_partition(partition)
            except FrazilError as error:
                logger.warning(
                    "cannot see whether a topic has more partitions; trying again",
                    extra={"topic": name.topic, "reason": str(error)},
                )

    # --- telling -----------------------------------------------------------------------------------------------

    async def stats(self, topic: str) -> Mapping[str, SubscriptionStats]:
        """Returns the open subscriptions of a topic, with the number of unacknowledged messages."""
        name = self._storage.name(topic)
        ends = await self._storage.get_write_position(name.path)
        found: dict[str, SubscriptionStats] = {}
        for full_name, (its_topic, _, subscription) in self._open.items():
            if its_topic.path == name.path and subscription.stopped is None:
                report = subscription.stats(ends)
                lag = {partition: each.lag for partition, each in report.partitions.items()}
                known = found.get(full_name.subscription)
                found[full_name.subscription] = SubscriptionStats(
                    {**(known.lag if known else {}), **lag},
                    max(len(report.consumers), known.consumers if known else 0),
                )
        return found

    def reports(self, ends: Mapping[str, Mapping[int, int]]) -> list[tuple[str, SubscriptionReport]]:
        """Returns reports on all subscriptions that are served here. `ends` has the ends of partitions that are
        known."""
        return [
            (name.topic, subscription.stats(ends.get(name.topic, {})))
            for name, _, subscription in self._open.values()
            if subscription.stopped is None
        ]

    # --- the end -----------------------------------------------------------------------------------------------

    async def delete(self, topic: str, subscription: str) -> None:
        """Deletes a subscription."""
        for each in await self.all_named(topic, subscription):
            # The lock keeps others from opening it before it is gone.
            async with self._opening[each.full_name]:
                await each.delete()
                if (known := self._open.get(each.full_name)) is not None and known.subscription is each:
                    del self._open[each.full_name]

    async def topic_deleted(self, topic: str) -> None:
        """Ends the subscriptions of a topic that was deleted, and tells their consumers."""
        name = self._storage.name(topic)
        for full_name, (its_topic, _, subscription) in list(self._open.items()):
            if its_topic.path == name.path:
                del self._open[full_name]
                await subscription.abandon(topic_deleted(name.topic))

    async def close(self) -> None:
        """Closes all subscriptions, so that another process can take them over."""
        self._closing = True
        if self._growing is not None:
            self._growing.cancel()
        problem: FrazilError | None = None
        for _, _, subscription in list(self._open.values()):
            try:
                await subscription.close()
            except FrazilError as error:
                problem = problem or error
        if self._journal is not None:
            await self._journal.close()
        if problem is not None:
            raise problem


def subscription_name(name: TopicName, subscription: str) -> SubscriptionName:
    part = name.name if name.partition is None else f"{name.name}{PART}{name.partition}"
    return SubscriptionName(subscription, name.namespace, part)
