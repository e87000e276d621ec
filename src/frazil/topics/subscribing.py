"""The subscriptions that this process serves: opened when somebody subscribes, and handed over when it stops."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from frazil.errors import FrazilError, RequestError
from frazil.log.log import Log
from frazil.topics.interface import SubscriptionStats
from frazil.topics.names import TopicName
from frazil.topics.reading import Cursor
from frazil.topics.starts import LATEST, Start
from frazil.topics.storage import TopicStorage
from frazil.topics.subscriptions.checkpoints import newest
from frazil.topics.subscriptions.journal import Journal
from frazil.topics.subscriptions.options import Kind, Options
from frazil.topics.subscriptions.places import Place
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription import MAX_CONCURRENT_READS, Subscription


class Subscriptions:
    """Belongs to one event loop. A name of one partition means a subscription to that partition alone."""

    def __init__(self, storage: TopicStorage, log: Log, process: str) -> None:
        """`process` is what people call this process by."""
        self._storage = storage
        self._log = log
        self._process = process
        self._journal: Journal | None = None
        self._opening_journal = asyncio.Lock()
        self._open: dict[Place, Subscription] = {}
        self._opening: defaultdict[Place, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._reads = asyncio.Semaphore(MAX_CONCURRENT_READS)

    async def _opened_journal(self) -> Journal:
        """Opened with the first subscription: of several processes on one data folder only one can have it."""
        async with self._opening_journal:
            if self._journal is None:
                settings = self._log.config.log
                self._journal = await Journal.open(
                    self._log.config.data_dir,
                    self._log.world,
                    sync=settings.sync,
                    sync_interval_seconds=settings.sync_interval_ms / 1000,
                )
            return self._journal

    async def subscribe(self, topic: str, subscription: str, options: Options, start: Start = LATEST) -> Subscription:
        """The subscription, taken over or created if it is not open here; `start` is for one that is created."""
        name = self._storage.name(topic)
        place = place_of(name, subscription)
        async with self._opening[place]:
            found = self._open.get(place)
            if found is not None and found.stopped is None:
                if found.options.kind != options.kind:
                    raise RequestError(
                        f"The {place} is of type {found.options.kind}, not {options.kind}. Use that type, or another "
                        f"subscription."
                    )
                return found
            opened = self._open[place] = await self._opened(name, place, options, start)
            return opened

    async def existing(self, topic: str, subscription: str) -> Subscription:
        """One that was created before, wherever that was."""
        name = self._storage.name(topic)
        place = place_of(name, subscription)
        found = self._open.get(place)
        if found is not None and found.stopped is None:
            return found
        last = await asyncio.to_thread(newest, self._log.store, place)
        if last is None or last.deleted:
            raise RequestError(f"There is no {place}. Subscribe first.")
        return await self.subscribe(topic, subscription, Options(kind=Kind(last.kind)))

    async def _opened(self, name: TopicName, place: Place, options: Options, start: Start) -> Subscription:
        count = await self._storage.partitions(name.path)
        if name.partition is not None and name.partition >= count:
            raise RequestError(f"{name.path} has no partition {name.partition}: it has {count}, from 0 on.")
        partitions = range(count) if name.partition is None else [name.partition]

        async def cursor(partition: int, offset: int, epoch: str) -> Cursor:
            found = await self._storage.cursor(name.path, partition, Start.at(offset))
            found.epoch = epoch or None
            return found

        async def birth() -> Mapping[int, Progress]:
            cursors = [await self._storage.cursor(name.path, partition, start) for partition in partitions]
            return {each.partition: Progress(each.position) for each in cursors}

        return await Subscription.open(
            place,
            options,
            store=self._log.store,
            journal=await self._opened_journal(),
            cursors=cursor,
            birth=birth,
            partitions=partitions,
            world=self._log.world,
            process=self._process,
            reads=self._reads,
        )

    async def stats(self, topic: str) -> Mapping[str, SubscriptionStats]:
        """Of those of a topic that are open here, with what they have not acknowledged yet."""
        name = self._storage.name(topic)
        ends = await self._storage.get_write_position(name.path)
        found: dict[str, SubscriptionStats] = {}
        for place, subscription in self._open.items():
            if place.namespace == name.namespace and _topic_of(place) == name.name:
                told = subscription.stats(ends)
                lag = {partition: each.lag for partition, each in told.partitions.items()}
                known = found.get(place.subscription)
                found[place.subscription] = SubscriptionStats(
                    {**(known.lag if known else {}), **lag},
                    max(len(told.consumers), known.consumers if known else 0),
                )
        return found

    async def close(self) -> None:
        """Hand all subscriptions over to whoever comes next."""
        problem: FrazilError | None = None
        for subscription in self._open.values():
            try:
                await subscription.close()
            except FrazilError as error:
                problem = problem or error
        if self._journal is not None:
            await self._journal.close()
        if problem is not None:
            raise problem


def place_of(name: TopicName, subscription: str) -> Place:
    part = name.name if name.partition is None else f"{name.name}-part-{name.partition}"
    return Place(subscription, name.namespace, part)


def _topic_of(place: Place) -> str:
    return place.topic.rpartition("-part-")[0] or place.topic
