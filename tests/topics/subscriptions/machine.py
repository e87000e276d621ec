"""Has a data folder with subscriptions, whose process can be restarted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from frazil.errors import (
    StorageUnavailable,
)
from frazil.store import ObjectStore
from frazil.store.local import LocalStore
from frazil.topics.messages import Message, from_batch
from frazil.topics.subscriptions.consumer import Consumer
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.journal import Journal
from frazil.topics.subscriptions.options import Options
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription import Subscription
from frazil.topics.subscriptions.subscription_name import SubscriptionName
from tests.topics.subscriptions.support import MemoryTopic, crash, payload_of

PLACE = SubscriptionName("billing", "shop", "orders")
OPTIONS = Options(
    window=100, prefetch_size=40, base_delay_seconds=0.01, max_delay_seconds=0.05, ack_timeout_seconds=None
)
SOON = 20.0
"""This is longer than anything here takes, and nothing waits for it when all is well."""


class Machine:
    """Has a data folder, whose process can be restarted."""

    def __init__(self, folder: Path, store: ObjectStore, topic: MemoryTopic) -> None:
        self.folder = folder
        self.store = store
        self.topic = topic
        self.journal: Journal | None = None
        self.letters: dict[str, Message] = {}
        self.bury_fails = 0

    async def subscription(
        self, options: Options = OPTIONS, place: SubscriptionName = PLACE, start: int = 0
    ) -> Subscription:
        if self.journal is None:
            self.journal = await Journal.open(self.folder)

        async def initial_progress() -> dict[int, Progress]:
            return {partition: Progress(start) for partition in self.topic.ends}

        return await Subscription.open(
            place,
            options,
            store=self.store,
            journal=self.journal,
            cursors=self.topic.cursor,
            initial_progress=initial_progress,
            partitions=self.topic.ends,
            process=f"process at {self.folder.name}",
            store_dead_letter=self.store_dead_letter,
            checkpoint_seconds=1000.0,
        )

    async def store_dead_letter(self, name: str, message: Message) -> None:
        await asyncio.sleep(0)
        if self.bury_fails:
            self.bury_fails -= 1
            raise StorageUnavailable("no dead-letter topic now")
        self.letters[name] = message

    async def crash(self, *subscriptions: Subscription) -> None:
        for each in subscriptions:
            await each._end()
        if self.journal:
            await self.journal.flush()
            crash(self.journal)
            self.journal = None


def run(tmp_path: Path, work: Callable[[Machine], Awaitable[None]], partitions: int = 1) -> None:
    async def main() -> None:
        async with machine(tmp_path / "data", LocalStore(tmp_path / "store"), MemoryTopic(partitions)) as one:
            await work(one)

    asyncio.run(main())


@asynccontextmanager
async def machine(folder: Path, store: ObjectStore, topic: MemoryTopic) -> AsyncIterator[Machine]:
    one = Machine(folder, store, topic)
    try:
        yield one
    finally:
        if one.journal:
            await one.journal.close()


async def take(consumer: Consumer, rows: int) -> list[Delivered]:
    """Receives exactly this many messages."""
    runs: list[Delivered] = []
    while missing := rows - sum(run.batch.num_rows for run in runs):
        got = await consumer.receive(missing, SOON)
        assert got
        runs += got
    return runs


def offsets(runs: list[Delivered], partition: int = 0) -> list[int]:
    for each in runs:
        expected = [payload_of(each.partition, offset) for offset in range(each.first, each.end)]
        assert [message.payload for message in from_batch(each.batch)] == expected
    return [offset for each in runs if each.partition == partition for offset in range(each.first, each.end)]
