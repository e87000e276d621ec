"""Tests what goes wrong in a subscription: messages fail or are gone, epochs end, stores fail."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import (
    ConfigError,
    EpochChanged,
    NotDelivered,
    OffsetGone,
    RequestError,
    StorageUnavailable,
)
from frazil.log.epochs import Epochs
from frazil.store.local import LocalStore
from frazil.topics.messages import MessageRun, from_batch
from frazil.topics.subscriptions.checkpoints import newest
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription import Subscription
from tests.topics.subscriptions.machine import OPTIONS, PLACE, SOON, Machine, machine, offsets, run, take
from tests.topics.subscriptions.support import MemoryCursor, MemoryTopic, key_of, payload_of


def test_dead_letters(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 4)
        one.bury_fails = 2
        options = replace(OPTIONS, max_redeliveries=2, poison="dead_letter")
        subscription = await one.subscription(options)
        consumer = subscription.join("a")
        for number in range(3):
            runs = await take(consumer, 4 - (number > 0))
            assert offsets(runs)[:3] == [0, 1, 2] if number == 0 else [1, 2, 3]
            assert runs[0].deliveries == number + 1
            if number == 0:
                await consumer.ack(0, 0)
            await consumer.nack(0, 1, reason="cannot be read")
        runs = await take(consumer, 2)
        assert offsets(runs) == [2, 3]
        await consumer.ack(0, 2, 4)
        while subscription.stats({}).partitions[0].lag:
            await asyncio.sleep(0.005)
        ((name, letter),) = one.letters.items()
        assert name.endswith("/0/1")
        assert letter.payload == payload_of(0, 1)
        assert letter.routing_key == key_of(1)
        assert letter.attributes == {
            "x-original-topic": "/shop/orders",
            "x-original-subscription": "billing",
            "x-original-partition": "0",
            "x-original-topic-offset": "1",
            "x-poison-policy": "dead_letter",
            "x-delivery-attempt": "3",
            "x-failure-reason": "cannot be read",
        }
        assert subscription.stats({}).dead == 1
        await one.crash(subscription)
        again = await one.subscription(options)
        assert again.stats({0: 4}).lag == 0
        await again.close()

    run(tmp_path, work)


def test_dead_letters_need_a_topic(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        await one.subscription()
        assert one.journal
        with pytest.raises(ConfigError, match="no topic for them is set"):
            await Subscription.open(
                PLACE,
                replace(OPTIONS, poison="dead_letter"),
                store=one.store,
                journal=one.journal,
                cursors=one.topic.cursor,
                initial_progress=no_birth,
            )

    run(tmp_path, work)


async def no_birth() -> dict[int, Progress]:
    return {}


def test_dropped_messages_stay_dropped(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 3)
        options = replace(OPTIONS, max_redeliveries=0, poison="drop")
        subscription = await one.subscription(options)
        consumer = subscription.join("a")
        await take(consumer, 3)
        await consumer.nack(0, 1)
        assert offsets(await take(consumer, 1)) == [2]
        await consumer.ack(0, 2)
        assert subscription.stats({}).dropped == 1
        await one.crash(subscription)
        again = await one.subscription(options)
        assert offsets(await take(again.join("a"), 1)) == [0]
        assert again.stats({}).lag == 1
        await again.close()

    run(tmp_path, work)


def test_not_acknowledged_in_time(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 2)
        subscription = await one.subscription(replace(OPTIONS, ack_timeout_seconds=0.02))
        consumer = subscription.join("a")
        assert [each.deliveries for each in await take(consumer, 2)] == [1]
        for offset in range(2):
            (run,) = await take(consumer, 1)
            assert (run.first, run.end, run.deliveries) == (offset, offset + 1, 2)
            await consumer.ack(0, offset)
        await subscription.close()

    run(tmp_path, work)


def test_messages_that_are_gone(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        for partition in range(2):
            one.topic.produce(partition, 10)
        one.topic.gone[0] = 6
        subscription = await one.subscription()
        consumer = subscription.join("a")
        seen: list[int] = []
        errors: list[int] = []
        while len(seen) < 10 or len(errors) < 2:
            try:
                runs = await consumer.receive(100, SOON)
            except OffsetGone as error:
                errors.append(error.first_left)
            else:
                seen += offsets(runs, partition=1)
        assert seen == list(range(10)), "other partitions go on"
        assert set(errors) == {6}
        other = subscription.stats({0: 10, 1: 10}).partitions
        assert other[0].problem == "The messages before offset 6 are gone."
        assert other[1].problem is None
        with pytest.raises(RequestError, match="misses nothing of partition 1"):
            await subscription.skip_gone(1)
        assert await subscription.skip_gone(0) == 6
        assert offsets(await take(consumer, 4)) == [6, 7, 8, 9]
        await one.crash(subscription)
        again = await one.subscription()
        assert again.stats({0: 10}).partitions[0].mark == 6
        await again.close()

    run(tmp_path, work, partitions=2)


def test_a_waiting_consumer_is_told_that_messages_are_gone(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        subscription = await one.subscription()
        waiting = asyncio.create_task(subscription.join("a").receive(1, SOON))
        await asyncio.sleep(0.01)
        one.topic.gone[0] = 50
        one.topic.produce(0, 60)
        with pytest.raises(OffsetGone, match="before offset 50"):
            await waiting
        await subscription.close()

    run(tmp_path, work)


@pytest.mark.parametrize("acknowledged", [0, 3, 10, 40])
@pytest.mark.parametrize("restarted", [True, False])
def test_a_new_epoch_takes_back_what_did_not_last(tmp_path: Path, acknowledged: int, restarted: bool) -> None:
    """Messages from 7 on were delivered, some acknowledged, and then lost with a tail that was not synced."""

    async def work(one: Machine) -> None:
        one.topic.produce(0, 40)
        subscription = await one.subscription()
        consumer = subscription.join("a")
        await take(consumer, 40)
        await consumer.ack(0, 0, acknowledged)
        await consumer.ack(0, 20, 25)
        if restarted:
            await one.crash(subscription)
        one.topic.lose_tail(0, 7, "e2")
        if restarted:
            subscription = await one.subscription()
            consumer = subscription.join("b")
        one.topic.produce(0, 40)
        new: list[int] = []
        while len(new) < 40:
            for each in await consumer.receive(100, SOON):
                expected = [payload_of(0, offset, each.epoch) for offset in range(each.first, each.end)]
                assert [message.payload for message in from_batch(each.batch)] == expected
                assert each.epoch == ("e1" if each.first < 7 else "e2")
                new += [offset for offset in range(each.first, each.end) if each.epoch == "e2"]
        assert new == list(range(7, 47))
        assert subscription.stats({}).partitions[0].mark == min(acknowledged, 7)
        await consumer.ack(0, 8)
        await one.crash(subscription)
        again = await one.subscription()
        assert again._delivery.backlogs[0].progress == Progress(min(acknowledged, 7), "e2", 1, [(8, 9)])
        await again.close()

    run(tmp_path, work)


def test_an_epoch_that_nobody_knows(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 10)
        subscription = await one.subscription()
        consumer = subscription.join("a")
        await consumer.ack_all(await take(consumer, 10))
        await subscription.close()
        one.topic.epochs = Epochs((("another", 0),))
        one.topic.produce(0, 10)
        again = await one.subscription()
        consumer = again.join("a")
        with pytest.raises(EpochChanged, match="epoch e1 is unknown"):
            await consumer.receive(1, SOON)
        await again.seek(0, 4)
        runs = await take(consumer, 16)
        assert [(each.first, each.end, each.epoch) for each in runs] == [(4, 20, "another")]
        await again.close()

    run(tmp_path, work)


def test_checkpoints_that_somebody_gave_up_waiting_for(tmp_path: Path) -> None:
    """The last checkpoint has everything, whatever was still in progress."""

    class Slow(LocalStore):
        def put_new(self, key: str, data: bytes | memoryview | pa.Buffer) -> None:
            time.sleep(0.01)
            super().put_new(key, data)

    async def main() -> None:
        topic = MemoryTopic()
        topic.produce(0, 20)
        store = Slow(tmp_path / "store")
        async with machine(tmp_path / "data", store, topic) as one:
            subscription = await one.subscription()
            consumer = subscription.join("a")
            await take(consumer, 20)
            for offset in range(20):
                await consumer.ack(0, offset)
                waiting = asyncio.create_task(subscription.checkpoint())
                await asyncio.sleep(0)
                waiting.cancel()
            await subscription.close()
            await subscription.close()
            checkpoint = newest(store, PLACE)
            assert checkpoint is not None
            assert checkpoint.partitions[0].mark == 20

    asyncio.run(main())


def test_answers_that_make_no_sense(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 10)
        subscription = await one.subscription()
        consumer = subscription.join("a")
        await take(consumer, 3)
        for partition, start, end in ((0, 3, 4), (0, 0, 4), (0, 1000, 1001), (7, 0, 1)):
            with pytest.raises(NotDelivered):
                await consumer.ack(partition, start, end)
            with pytest.raises(NotDelivered):
                await consumer.nack(partition, start, end)
        await consumer.ack(0, 0, 3)
        await consumer.ack(0, 0, 3)
        await consumer.nack(0, 0, 3)
        assert offsets(await take(consumer, 7)) == list(range(3, 10))
        await subscription.close()

    run(tmp_path, work)


class Flaky(MemoryCursor):
    failures = 3

    async def read(self, max_rows: int, max_bytes: int) -> MessageRun | None:
        if Flaky.failures:
            Flaky.failures -= 1
            raise StorageUnavailable("the store does not answer")
        return await super().read(max_rows, max_bytes)


def test_a_store_that_fails_for_a_while(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 10)

        async def cursor(partition: int, offset: int, epoch: str) -> MemoryCursor:
            return Flaky(one.topic, partition, offset)

        one.topic.cursor = cursor  # type: ignore[method-assign]
        subscription = await one.subscription()
        assert offsets(await take(subscription.join("a"), 10)) == list(range(10))
        await subscription.close()

    run(tmp_path, work)


class Bug(MemoryCursor):
    async def read(self, max_rows: int, max_bytes: int) -> MessageRun | None:
        raise ZeroDivisionError


def test_a_failure_that_nobody_thought_of_is_no_silence(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        async def cursor(partition: int, offset: int, epoch: str) -> MemoryCursor:
            return Bug(one.topic, partition, offset)

        one.topic.cursor = cursor  # type: ignore[method-assign]
        subscription = await one.subscription()
        consumer = subscription.join("a")
        with pytest.raises(Exception, match=r"ZeroDivisionError.*Open it again"):
            await consumer.receive(1, SOON)
        await subscription.close()

    run(tmp_path, work)
