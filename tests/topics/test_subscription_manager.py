"""Tests subscriptions to topics of a real log: the effect of settings, and what happens when the topic is deleted."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from frazil.config.model import Config
from frazil.errors import (
    InvalidTopic,
    LogCorrupted,
    RequestError,
    ShutdownError,
    SubscriptionNotFound,
    TopicNotFound,
)
from frazil.topics.message_limits import MOST_BYTES
from frazil.topics.messages import Message, from_batch
from frazil.topics.read.starts import EARLIEST, LATEST
from frazil.topics.subscription_manager import SubscriptionManager
from frazil.topics.subscriptions.consumer import Consumer
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.options import Kind
from frazil.topics.subscriptions.subscription import Subscription
from frazil.topics.topic_service import open_topics
from tests.topics.support import TOPIC, Shop, numbered

REDELIVERIES = 2
IMPATIENT = {"max_redeliveries": REDELIVERIES, "redelivery_delay_seconds": 0.01, "max_redelivery_delay_seconds": 0.01}
SOON = 20.0


@asynccontextmanager
async def opened(folder: Path, **subscriptions: object) -> AsyncIterator[tuple[Shop, SubscriptionManager]]:
    with Shop(folder, topics={TOPIC: {"subscriptions": {**IMPATIENT, **subscriptions}}}) as shop:
        found = SubscriptionManager(shop.topics, shop.log, "a test")
        try:
            yield shop, found
        finally:
            await found.close()


async def received(consumer: Consumer, count: int) -> list[bytes]:
    """Receives exactly this many messages, and acknowledges none."""
    found: list[Delivered] = []
    async with asyncio.timeout(SOON):
        while sum(len(run.batch) for run in found) < count:
            found += await consumer.receive(count)
    return [message.payload for run in found for message in from_batch(run.batch)]


async def refuse_for_good(consumer: Consumer, payload: bytes) -> None:
    """Refuses a message until it does not come again. It is the first message of partition 0."""
    for _ in range(1 + REDELIVERIES):
        assert (await received(consumer, 1))[0] == payload
        await consumer.nack(0, 0, reason="cannot be read")


async def letters_in(shop: Shop, topic: str) -> list[Message]:
    stream = await shop.topics.create_message_stream(topic, EARLIEST, follow=False)
    return [message async for run in stream for message in from_batch(run.batch)]


@pytest.mark.parametrize(
    ("settings", "letters"),
    [({}, "shop.orders_dead_letters"), ({"dead_letter_topic": "/shop/bad"}, "shop.bad")],
)
def test_what_fails_for_good_is_in_the_dead_letter_topic(
    tmp_path: Path, settings: dict[str, str], letters: str
) -> None:
    async def body() -> None:
        async with opened(tmp_path, **settings) as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            await shop.topics.store(
                TOPIC, [Message(b"bad", attributes={"a": "b"}, routing_key="k"), Message(b"good")]
            )
            one = await subscriptions.subscribe(TOPIC, "billing", Kind.EXCLUSIVE, EARLIEST)
            consumer = one.join("c")
            await refuse_for_good(consumer, b"bad")
            assert await received(consumer, 1) == [b"good"], "it is in nobody's way any more"
            async with asyncio.timeout(SOON):
                while one.stats({}).dead == 0:
                    await asyncio.sleep(0.01)
            (letter,) = await letters_in(shop, letters)
            assert (letter.payload, letter.routing_key, letter.attributes["a"]) == (b"bad", "k", "b")
            assert letter.attributes["x-original-topic"] == "/shop/orders"
            assert letter.attributes["x-original-topic-offset"] == "0"
            assert letter.attributes["x-failure-reason"] == "cannot be read"

            watching = await subscriptions.subscribe(letters, "repair", Kind.EXCLUSIVE, EARLIEST)
            expected = "dead_letter" if settings else "block"
            assert watching.options.poison == expected, "letters that fail do not go to letters of letters"

    asyncio.run(body())


@pytest.mark.parametrize("after", ["block", "drop"])
def test_what_fails_for_good_can_block_or_be_dropped(tmp_path: Path, after: str) -> None:
    async def body() -> None:
        async with opened(tmp_path, after_redeliveries=after) as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            await shop.topics.store(TOPIC, [Message(b"bad"), Message(b"good")])
            consumer = (await subscriptions.subscribe(TOPIC, "billing", Kind.EXCLUSIVE, EARLIEST)).join("c")
            await refuse_for_good(consumer, b"bad")
            assert await received(consumer, 1) == [b"bad" if after == "block" else b"good"]
            assert await shop.topics.list_topics() == [TOPIC]

    asyncio.run(body())


def test_a_dead_letter_topic_that_cannot_be(tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(tmp_path, dead_letter_topic="a b") as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            with pytest.raises(InvalidTopic, match="'a b' cannot be a topic"):
                await subscriptions.subscribe(TOPIC, "billing")

    asyncio.run(body())


def test_whoever_is_killed_after_storing_a_dead_letter_does_not_store_it_again(tmp_path: Path) -> None:
    async def before() -> None:
        async with opened(tmp_path) as (shop, _):
            await shop.topics.create_topic(TOPIC)
            await shop.topics.store(TOPIC, numbered(0, 1))

    async def after() -> None:
        async with opened(tmp_path) as (shop, subscriptions):
            one = await subscriptions.existing(TOPIC, "billing")
            assert one.stats({0: 1}).lag == 1, "it was not noted"
            await refuse_for_good(one.join("c"), b"0")
            async with asyncio.timeout(SOON):
                while one.stats({}).dead == 0:
                    await asyncio.sleep(0.01)
            assert len(await letters_in(shop, f"{TOPIC}_dead_letters")) == 1

    asyncio.run(before())
    command = [sys.executable, "-m", "tests.topics.test_subscription_manager", str(tmp_path)]
    environment = {**os.environ, "FRAZIL_FAILPOINT": "subscriptions.buried"}
    assert subprocess.run(command, env=environment, timeout=100, check=False).returncode == -signal.SIGKILL
    asyncio.run(after())


async def _die(folder: Path) -> None:
    async with opened(folder) as (_, subscriptions):
        one = await subscriptions.subscribe(TOPIC, "billing", Kind.EXCLUSIVE, EARLIEST)
        await refuse_for_good(one.join("c"), b"0")
        await asyncio.sleep(SOON)


def test_partitions_that_come_are_read_too(tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(tmp_path) as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            one = await subscriptions.subscribe(TOPIC, "billing", Kind.SHARED, LATEST)
            alone = await subscriptions.subscribe(f"{TOPIC}-part-0", "alone", Kind.SHARED, LATEST)
            await shop.topics.ensure_topic(TOPIC, 3)
            await shop.topics.store(TOPIC, numbered(7, 1), partition=2)
            await subscriptions.grow()
            assert await received(one.join("c"), 1) == [b"7"]
            assert list(one.stats({}).partitions) == [0, 1, 2]
            assert list(alone.stats({}).partitions) == [0]

    asyncio.run(body())


def test_a_subscription_that_is_gone_does_not_keep_others_from_new_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.topics.subscription_manager.GROWTH_SECONDS", 0.02)

    async def body() -> None:
        async with opened(tmp_path) as (shop, subscriptions):
            for topic in (TOPIC, "others"):
                await shop.topics.create_topic(topic)
            gone = await subscriptions.subscribe(TOPIC, "billing", Kind.SHARED)
            one = await subscriptions.subscribe("others", "billing", Kind.SHARED)
            now = shop.topics.partitions_now

            async def partitions_now(topic: str) -> int:
                if topic == "/shop/orders":
                    await gone._end()
                return await now(topic)

            monkeypatch.setattr(shop.topics, "partitions_now", partitions_now)
            await shop.topics.ensure_topic("others", 2)
            async with asyncio.timeout(SOON):
                while one.partitions != [0, 1]:
                    await asyncio.sleep(0.01)

    asyncio.run(body())


def test_one_that_is_opened_while_all_are_closed_is_closed_too(tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(tmp_path) as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            await subscriptions.subscribe(TOPIC, "one", Kind.SHARED)
            opening = [asyncio.create_task(subscriptions.subscribe(TOPIC, f"s{n}", Kind.SHARED)) for n in range(5)]
            await asyncio.sleep(0)
            await subscriptions.close()
            outcomes = await asyncio.gather(*opening, return_exceptions=True)
            assert all(isinstance(each, ShutdownError) or each.stopped is not None for each in outcomes)  # type: ignore[union-attr]

    asyncio.run(body())


def test_one_that_is_opened_while_its_topic_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        async with opened(tmp_path) as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            openly = Subscription.open

            async def open_slowly(*arguments: Any, **options: Any) -> Subscription:
                found = await openly(*arguments, **options)
                await shop.topics.delete_topic(TOPIC, drop_table=True)
                await shop.topics.create_topic(TOPIC)
                return found

            with monkeypatch.context() as patched:
                patched.setattr(Subscription, "open", open_slowly)
                with pytest.raises(TopicNotFound, match="was deleted"):
                    await subscriptions.subscribe(TOPIC, "billing")
            again = await subscriptions.subscribe(TOPIC, "billing")
            await shop.topics.store(TOPIC, numbered(3, 1))
            assert await received(again.join("c"), 1) == [b"3"]

    asyncio.run(body())


def test_many_seeks_at_once_leave_one_reader(tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(tmp_path) as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            await shop.topics.store(TOPIC, numbered(0, 5))
            one = await subscriptions.subscribe(TOPIC, "billing", Kind.SHARED)
            before = len(one._tasks)
            await asyncio.gather(*(subscriptions.seek(TOPIC, "billing", EARLIEST) for _ in range(8)))
            assert len(one._tasks) == before
            assert len(await received(one.join("c"), 5)) == 5

    asyncio.run(body())


def test_a_message_as_large_as_can_be_becomes_a_dead_letter(tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(tmp_path, max_redeliveries=0) as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            await shop.topics.store(TOPIC, [Message(bytes(MOST_BYTES))])
            one = await subscriptions.subscribe(TOPIC, "billing", Kind.EXCLUSIVE, EARLIEST)
            consumer = one.join("c")
            await received(consumer, 1)
            await consumer.nack(0, 0, reason="ü" * 10_000_000)
            async with asyncio.timeout(SOON):
                while one.stats({}).dead == 0:
                    await asyncio.sleep(0.01)
            (letter,) = await letters_in(shop, f"{TOPIC}_dead_letters")
            assert len(letter.attributes["x-failure-reason"]) == 1000

    asyncio.run(body())


def test_a_subscription_goes_with_its_topic(tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(tmp_path) as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            await shop.topics.store(TOPIC, numbered(0, 5))
            one = await subscriptions.subscribe(TOPIC, "billing", Kind.SHARED, EARLIEST)
            asleep = await subscriptions.subscribe(TOPIC, "asleep", Kind.SHARED, EARLIEST)
            await asleep.close()
            consumer = one.join("c")
            assert len(await received(consumer, 5)) == 5
            waiting = asyncio.create_task(consumer.receive(1))
            await asyncio.sleep(0)
            await shop.topics.delete_topic(TOPIC, drop_table=True)
            await subscriptions.topic_deleted(TOPIC)
            with pytest.raises(TopicNotFound, match=r"'shop\.orders' was deleted"):
                await waiting
            with pytest.raises(TopicNotFound):
                await one.ack([(0, 0, 1)])

            await shop.topics.create_topic(TOPIC)
            await shop.topics.store(TOPIC, numbered(5, 3))
            for name in ("billing", "asleep"):
                with pytest.raises(SubscriptionNotFound):
                    await subscriptions.existing(TOPIC, name)
            again = await subscriptions.subscribe(TOPIC, "billing", Kind.EXCLUSIVE, EARLIEST)
            assert await received(again.join("c"), 3) == [b"5", b"6", b"7"]

    asyncio.run(body())


def test_deleted_ones_are_gone_and_can_be_of_another_type_afterwards(tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(tmp_path) as (shop, subscriptions):
            await shop.topics.create_topic(TOPIC)
            await shop.topics.store(TOPIC, numbered(0, 5))
            await subscriptions.subscribe(TOPIC, "billing", Kind.SHARED, LATEST)
            with pytest.raises(RequestError, match="is of type shared, not exclusive"):
                await subscriptions.subscribe(TOPIC, "billing", Kind.EXCLUSIVE)
            await subscriptions.delete(TOPIC, "billing")
            with pytest.raises(SubscriptionNotFound, match="no subscription 'billing'"):
                await subscriptions.delete(TOPIC, "billing")
            assert await subscriptions.stats(TOPIC) == {}
            again = await subscriptions.subscribe(TOPIC, "billing", Kind.EXCLUSIVE, EARLIEST)
            assert len(await received(again.join("c"), 5)) == 5

    asyncio.run(body())


if __name__ == "__main__":
    asyncio.run(_die(Path(sys.argv[1])))


def test_damaged_acknowledgements_stop_subscriptions_alone(tmp_path: Path) -> None:
    """They work again after the printed command has run; nothing is restarted."""

    async def run() -> None:
        folder = tmp_path / "subscriptions"
        folder.mkdir(parents=True)
        (folder / f"{1:020d}.acks").write_bytes(b"rubbish, and long enough to be a frame")
        async with open_topics(Config(data_dir=tmp_path)) as topics:
            await topics.create_topic("orders")
            with pytest.raises(LogCorrupted) as told:
                await topics.subscribe("orders", "billing")
            assert topics.subscriptions.problem is told.value
            assert (await topics.store("orders", [Message(b"one")])).first == 0
            subprocess.run(str(told.value).partition("Run: ")[2], shell=True, check=True)
            await topics.subscribe("orders", "billing")
            assert topics.subscriptions.problem is None

    asyncio.run(run())
