"""Tests whole subscriptions at random: consumers join, leave, refuse and give up, and processes die."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from frazil.errors import ConsumerGone, ConsumerRefused, ShutdownError
from frazil.store.local import LocalStore
from frazil.topics.subscriptions.consumer import Consumer
from frazil.topics.subscriptions.options import Kind
from frazil.topics.subscriptions.subscription import Subscription
from tests.topics.subscriptions.machine import OPTIONS, SOON, Machine, machine, offsets
from tests.topics.subscriptions.support import MemoryTopic

PARTITIONS = 2
MESSAGES = 400
LIVES = 6
OVER = (ConsumerGone, ConsumerRefused, ShutdownError)
Place = tuple[int, int]


class Crowd:
    """Has the consumers of one subscription, and what they have been told is acknowledged, in all lives."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.asked: set[Place] = set()
        """They acknowledged these messages, and may not have been told that it is stored before the process died."""
        self.acknowledged: set[Place] = set()
        self.reliable = False
        """If true, they acknowledge everything and stay."""

    async def consume(self, subscription: Subscription, name: str) -> None:
        while subscription.stopped is None:
            try:
                consumer = subscription.join(name)
                with suppress(*OVER):
                    await self.session(consumer)
                consumer.close()
            except OVER:
                await asyncio.sleep(0.001)

    async def session(self, consumer: Consumer) -> None:
        while self.reliable or self.rng.random() < 0.97:
            fetching = asyncio.create_task(consumer.receive(self.rng.randint(1, 40), 0.01))
            if not self.reliable and self.rng.random() < 0.1:
                await asyncio.sleep(0)
                fetching.cancel()
            try:
                runs = await fetching
            except asyncio.CancelledError:
                continue
            for partition in range(PARTITIONS):
                for offset in offsets(runs, partition):
                    assert (partition, offset) not in self.acknowledged, "acknowledged, and delivered again"
            for each in runs:
                for offset in range(each.first, each.end):
                    await self.answer(consumer, each.partition, offset)

    async def answer(self, consumer: Consumer, partition: int, offset: int) -> None:
        if not self.reliable and self.rng.random() < 0.1:
            await consumer.nack(partition, offset)
        elif self.reliable or self.rng.random() < 0.95:
            self.asked.add((partition, offset))
            await consumer.ack(partition, offset)
            self.acknowledged.add((partition, offset))


async def lives(one: Machine, kind: Kind, rng: random.Random) -> None:
    options = replace(
        OPTIONS, kind=kind, window=20, base_delay_seconds=0.001, max_delay_seconds=0.002, max_redeliveries=10_000
    )
    crowd = Crowd(rng)
    everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(MESSAGES)}
    for life in range(LIVES):
        crowd.reliable = life == LIVES - 1
        subscription = await one.subscription(options)
        consumers = [asyncio.create_task(crowd.consume(subscription, name)) for name in "abc"]
        if crowd.reliable:
            async with asyncio.timeout(SOON):
                while subscription.stats(one.topic.ends).lag:
                    await asyncio.sleep(0.005)
        else:
            await asyncio.sleep(rng.uniform(0.005, 0.1))
        if rng.random() < 0.5:
            await subscription.checkpoint()
        if rng.random() < 0.7:
            await one.crash(subscription)
        else:
            await subscription.close()
        for done in await asyncio.gather(*consumers, return_exceptions=True):
            assert done is None
    assert crowd.asked == everything


@pytest.mark.parametrize("kind", list(Kind))
def test_nothing_is_lost_and_nothing_comes_back(tmp_path: Path, seed: int, kind: Kind) -> None:
    async def main() -> None:
        topic = MemoryTopic(PARTITIONS)
        for partition in range(PARTITIONS):
            topic.produce(partition, MESSAGES)
        async with machine(tmp_path / "data", LocalStore(tmp_path / "store"), topic) as one:
            await lives(one, kind, random.Random(seed))

    asyncio.run(main())
