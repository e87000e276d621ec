"""Tests topics in a program of one's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.errors import PartitionLocked, TopicNotFound
from frazil.topics import EARLIEST, Kind, Message, PersistentStorage, Topics, from_batch, open_topics


async def payloads(topics: Topics, count: int) -> list[bytes]:
    """Receives payloads and acknowledges them."""
    consumer = (await topics.subscribe("shop.orders", "billing", Kind.SHARED, EARLIEST)).join("till")
    found: list[bytes] = []
    while len(found) < count:
        runs = await consumer.receive(100)
        found += [message.payload for run in runs for message in from_batch(run.batch)]
        await consumer.ack_all(runs)
    return found


def test_stored_and_received_and_none_of_it_twice(tmp_path: Path) -> None:
    settings = tmp_path / "frazil.yaml"
    settings.write_text(f"data_dir: {tmp_path / 'data'}\n")

    async def life(first: int) -> None:
        async with open_topics(settings) as topics:
            storage: PersistentStorage = topics
            assert await storage.initialize_topic("/shop/orders", 2) == 2
            assert await storage.list_topics() == ["shop.orders"]
            for number in range(first, first + 3):
                await storage.store("/shop/orders", [Message(str(number).encode())])
            expected = [str(number).encode() for number in range(first, first + 3)]
            assert sorted(await payloads(topics, 3)) == expected
            stats = await storage.get_topic_stats("shop.orders")
            assert stats.message_count == first + 3
            assert stats.subscriptions["billing"].total == 0

    asyncio.run(life(0))
    asyncio.run(life(3))


def test_a_subscription_goes_with_its_topic(tmp_path: Path) -> None:
    async def life() -> None:
        async with open_topics(Config(data_dir=tmp_path)) as topics:
            await topics.create_topic("orders")
            consumer = (await topics.subscribe("orders", "billing")).join("till")
            waiting = asyncio.create_task(consumer.receive(1))
            await asyncio.sleep(0)
            await topics.delete_topic("orders", drop_table=True)
            with pytest.raises(TopicNotFound, match="'orders' was deleted"):
                await waiting

    asyncio.run(life())


def test_one_program_at_a_time(tmp_path: Path) -> None:
    async def life() -> None:
        async with open_topics(Config(data_dir=tmp_path)) as first, open_topics(Config(data_dir=tmp_path)) as second:
            await first.initialize_topic("orders")
            with pytest.raises(PartitionLocked):
                await second.store("orders", [Message(b"")])

    asyncio.run(life())
