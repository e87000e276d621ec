"""Consumes and acknowledges until it is killed, and says so on standard output.

Run `python -m tests.topics.subscriptions.acker FOLDER SYNC KIND MESSAGES`. Each line is `D` (delivered) or `A`
(acknowledged, printed after it was stored), partition, start and end.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path
from typing import Any

from frazil.store.local import LocalStore
from frazil.topics.subscriptions.consumer import Consumer
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.journal import Journal
from frazil.topics.subscriptions.options import Kind, Options
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription import Subscription
from frazil.topics.subscriptions.subscription_name import SubscriptionName
from tests.topics.subscriptions.support import MemoryTopic

PLACE = SubscriptionName("billing", "shop", "orders")
PARTITIONS = 2


def say(what: str, partition: int, start: int, end: int) -> None:
    """Prints with one write, so that a killed process leaves a whole line or none."""
    os.write(1, f"{what} {partition} {start} {end}\n".encode())


async def consume(consumer: Consumer, rng: random.Random) -> None:
    async def answer(run: Delivered) -> None:
        offsets = list(range(run.first, run.end))
        rng.shuffle(offsets)
        for offset in offsets:
            if rng.random() < 0.05:
                await consumer.nack(run.partition, offset)
                continue
            await consumer.ack(run.partition, offset)
            say("A", run.partition, offset, offset + 1)

    while True:
        runs = await consumer.receive(rng.randint(1, 20))
        for run in runs:
            say("D", run.partition, run.first, run.end)
        await asyncio.gather(*map(answer, runs))


async def main(folder: Path, sync: Any, kind: Kind, messages: int) -> None:
    topic = MemoryTopic(PARTITIONS)
    for partition in range(PARTITIONS):
        topic.produce(partition, messages)

    async def initial_progress() -> dict[int, Progress]:
        return {partition: Progress() for partition in range(PARTITIONS)}

    journal = await Journal.open(folder, sync=sync, sync_interval_seconds=0.01, max_file_bytes=20_000)
    subscription = await Subscription.open(
        PLACE,
        Options(kind, prefetch_size=50, base_delay_seconds=0.001, max_delay_seconds=0.01, max_redeliveries=100),
        store=LocalStore(folder / "store"),
        journal=journal,
        cursors=topic.cursor,
        initial_progress=initial_progress,
        checkpoint_seconds=0.02,
    )
    names = ["a"] if kind is Kind.EXCLUSIVE else ["a", "b"]
    await asyncio.gather(*(consume(subscription.join(name), random.Random()) for name in names))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], Kind(sys.argv[3]), int(sys.argv[4])))
