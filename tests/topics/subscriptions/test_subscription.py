"""Tests a running subscription, with a real journal and a real store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from frazil.errors import (
    ConsumerGone,
    ConsumerRefused,
    CumulativeRefused,
    NotDelivered,
    SubscriptionFenced,
    SubscriptionMismatch,
    SubscriptionNotFound,
)
from frazil.store import ObjectStore
from frazil.topics.messages import Message, MessageRun, to_batch
from frazil.topics.subscriptions.checkpoints import newest
from frazil.topics.subscriptions.options import Kind
from tests.topics.subscriptions.machine import OPTIONS, PLACE, SOON, Machine, machine, offsets, run, take
from tests.topics.subscriptions.support import MemoryCursor, MemoryTopic


def test_everything_once_and_then_as_it_comes(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 1000)
        subscription = await one.subscription()
        consumer = subscription.join("a")
        seen: list[int] = []
        while len(seen) < 1000:
            runs = await consumer.receive(30, SOON)
            await consumer.ack_all(runs)
            seen += offsets(runs)
        assert seen == list(range(1000))
        assert await consumer.receive(10, 0.01) == []
        waiting = asyncio.create_task(consumer.receive(10, SOON))
        await asyncio.sleep(0)
        one.topic.produce(0, 3)
        assert offsets(await waiting) == [1000, 1001, 1002]
        await subscription.close()

    run(tmp_path, work)


@pytest.mark.parametrize("how", ["closed", "crashed"])
def test_a_restart_delivers_what_was_not_acknowledged(tmp_path: Path, how: str) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 30)
        subscription = await one.subscription(start=5)
        consumer = subscription.join("a")
        assert offsets(await take(consumer, 20)) == list(range(5, 25))
        await consumer.ack_until(0, 8)
        await consumer.ack(0, 10, 20)
        if how == "closed":
            await subscription.close()
            checkpoint = newest(one.store, PLACE)
            assert checkpoint is not None
            assert checkpoint.partitions[0].gaps == [(10, 20)]
        else:
            await one.crash(subscription)
        again = await one.subscription(start=1000)
        consumer = again.join("b")
        assert again.stats({0: 30}).lag == 12
        assert offsets(await take(consumer, 12)) == [8, 9, *range(20, 30)]
        await again.close()

    run(tmp_path, work)


@pytest.mark.parametrize("at_once", [True, False])
def test_what_was_delivered_before_a_restart_can_be_acknowledged_after_it(tmp_path: Path, at_once: bool) -> None:
    """This works before this process has read the messages, but nobody can acknowledge what does not exist."""

    async def work(one: Machine) -> None:
        one.topic.produce(0, 10)
        subscription = await one.subscription()
        assert len(offsets(await take(subscription.join("a"), 10))) == 10
        await one.crash(subscription)
        again = await one.subscription()
        consumer = again.join("a")
        if at_once:
            await consumer.nack(0, 8)
            await consumer.ack(0, 3, 10)
        assert offsets(await take(consumer, 1)) == [0]
        await consumer.ack(0, 3, 10)
        assert offsets(await take(consumer, 2)) == [1, 2]
        for start, end in ((9, 11), (11, 12), (500, 501)):
            with pytest.raises(NotDelivered, match="was not delivered"):
                await consumer.ack(0, start, end)
            with pytest.raises(NotDelivered, match="was not delivered"):
                await consumer.nack(0, start, end)
        one.topic.produce(0, 2)
        assert offsets(await take(consumer, 2)) == [10, 11]
        await again.close()

    run(tmp_path, work)


def test_a_move_to_another_machine(tmp_path: Path, any_store: ObjectStore) -> None:
    async def main() -> None:
        topic = MemoryTopic()
        topic.produce(0, 20)
        async with (
            machine(tmp_path / "a", any_store, topic) as here,
            machine(tmp_path / "b", any_store, topic) as there,
        ):
            former = await here.subscription()
            consumer = former.join("a")
            await take(consumer, 10)
            await consumer.ack(0, 0, 4)
            await former.checkpoint()
            await consumer.ack(0, 6, 8)

            later = await there.subscription()
            other = later.join("a")
            assert offsets(await take(other, 10)) == list(range(4, 14))
            waiting = asyncio.create_task(consumer.receive(100, SOON))
            await asyncio.sleep(0)
            with pytest.raises(SubscriptionFenced, match="taken over by process at b"):
                await former.checkpoint()
            assert offsets(await waiting) == list(range(10, 20))
            for call in (consumer.receive(1), consumer.ack(0, 4), former.checkpoint(), former.ack([(0, 4, 5)])):
                with pytest.raises(SubscriptionFenced, match="Consumers must connect to the new owner"):
                    await call
            await former.close()
            await other.ack_until(0, 5)
            await later.close()

            back = await here.subscription()
            assert back.stats({0: 20}).partitions[0].mark == 5
            assert offsets(await take(back.join("a"), 13)) == [5, *range(8, 20)], "its own journal still counts"
            await back.close()

    asyncio.run(main())


def test_an_exclusive_one_has_one_consumer(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 10)
        subscription = await one.subscription()
        first = subscription.join("a")
        with pytest.raises(ConsumerRefused, match="exclusive, and consumer 'a' has it"):
            subscription.join("b")
        await take(first, 3)
        waiting = asyncio.create_task(first.receive(0, SOON))
        await asyncio.sleep(0)
        again = subscription.join("a")
        with pytest.raises(ConsumerGone, match="taken this session over"):
            await waiting
        with pytest.raises(ConsumerGone):
            await first.ack(0, 0)
        assert offsets(await take(again, 10)) == list(range(10))
        again.close()
        with pytest.raises(ConsumerGone, match="has left"):
            await again.receive(1)
        assert offsets(await take(subscription.join("b"), 10)) == list(range(10))
        await subscription.close()

    run(tmp_path, work)


def test_failover_goes_to_the_next_in_line(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 10)
        subscription = await one.subscription(replace(OPTIONS, kind=Kind.FAILOVER))
        first, second, third = (subscription.join(name) for name in "abc")
        waiting = asyncio.create_task(second.receive(100, SOON))
        assert await third.receive(1, 0.01) == []
        assert offsets(await take(first, 6)) == list(range(6))
        await first.ack(0, 0, 2)
        assert not waiting.done()
        first.close()
        assert offsets(await waiting) == list(range(2, 10))
        await subscription.close()

    run(tmp_path, work)


def test_a_slow_consumer_holds_its_window_and_no_more(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 2000)
        subscription = await one.subscription(replace(OPTIONS, kind=Kind.SHARED, window=5, max_gaps=1000))
        slow, quick = subscription.join("slow"), subscription.join("quick")
        held = offsets(await take(slow, 5))
        assert await slow.receive(10, 0.01) == []
        seen: list[int] = []
        while len(seen) < 1995:
            runs = await quick.receive(5, SOON)
            await quick.ack_all(runs)
            seen += offsets(runs)
        assert sorted(seen + held) == list(range(2000))
        slow.close()
        assert sorted(offsets(await take(quick, 5))) == held
        await subscription.close()

    run(tmp_path, work)


def test_nobody_reads_far_ahead(tmp_path: Path) -> None:
    """Nothing is read for a subscription without consumers, and no more than the limit for a slow one."""

    async def work(one: Machine) -> None:
        one.topic.produce(0, 100_000)
        idle = await one.subscription(place=PLACE._replace(subscription="idle"))
        slow = await one.subscription(place=PLACE._replace(subscription="slow"))
        quick = await one.subscription(place=PLACE._replace(subscription="quick"))
        await take(slow.join("a"), 7)
        consumer = quick.join("a")
        for _ in range(100):
            await consumer.ack_all(await consumer.receive(100, SOON))
        stats = slow.stats({0: 100_000}).partitions[0]
        assert stats.unacknowledged == 7
        assert stats.prefetched <= OPTIONS.prefetch_size
        assert stats.lag == 100_000
        assert idle.stats({}).partitions[0].prefetched == 0
        assert quick.stats({0: 100_000}).lag < 99_000
        for each in (idle, slow, quick):
            await each.close()

    run(tmp_path, work)


@pytest.mark.parametrize("limit", ["max_held_bytes", "max_gaps"])
def test_delivery_pauses_at_a_limit_and_goes_on(tmp_path: Path, limit: str) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 3000)
        limits = {"max_held_bytes": 4000} if limit == "max_held_bytes" else {"max_gaps": 3}
        subscription = await one.subscription(replace(OPTIONS, kind=Kind.SHARED, **limits))  # type: ignore[arg-type]
        consumer = subscription.join("a")
        kept: list[int] = []
        acknowledged = 0
        while runs := await consumer.receive(10, 0.05):
            for offset in offsets(runs):
                if offset % 10:
                    await consumer.ack(0, offset)
                    acknowledged += 1
                else:
                    kept.append(offset)
        stats = subscription.stats({0: 3000}).partitions[0]
        assert stats.gaps <= (3 if limit == "max_gaps" else 100)
        assert acknowledged < 2700, "it paused"
        for offset in kept:
            await consumer.ack(0, offset)
        while acknowledged + len(kept) < 3000:
            runs = await consumer.receive(100, SOON)
            await consumer.ack_all(runs)
            acknowledged += len(offsets(runs))
        assert subscription.stats({0: 3000}).lag == 0
        await subscription.close()

    run(tmp_path, work)


def test_seek(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 20)
        subscription = await one.subscription()
        consumer = subscription.join("a")
        await consumer.ack_all(await take(consumer, 15))
        await subscription.seek(0, 3)
        assert offsets(await take(consumer, 4)) == [3, 4, 5, 6]
        await consumer.ack(0, 3)
        await one.crash(subscription)
        again = await one.subscription()
        consumer = again.join("a")
        assert offsets(await take(consumer, 2)) == [4, 5]
        await again.seek(0, 18)
        assert offsets(await take(consumer, 2)) == [18, 19]
        await again.close()

    run(tmp_path, work)


def test_a_partition_that_comes_later_is_read_from_its_start(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 10)
        subscription = await one.subscription(start=10)
        consumer = subscription.join("a")
        one.topic.ends[1] = one.topic.gone[1] = 0
        one.topic.produce(1, 5)
        subscription.add_partition(1)
        assert offsets(await take(consumer, 5), partition=1) == list(range(5))
        await consumer.ack(1, 0, 2)
        await subscription.close()
        again = await one.subscription()
        assert offsets(await take(again.join("a"), 3), partition=1) == [2, 3, 4]
        await again.close()

    run(tmp_path, work)


def test_a_deleted_one_stays_deleted(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        one.topic.produce(0, 5)
        subscription = await one.subscription()
        consumer = subscription.join("a")
        await consumer.ack_all(await take(consumer, 5))
        await subscription.delete()
        await subscription.close()
        checkpoint = newest(one.store, PLACE)
        assert checkpoint is not None
        assert checkpoint.deleted
        again = await one.subscription()
        assert offsets(await take(again.join("a"), 5)) == list(range(5)), "what the former acknowledged says nothing"
        await again.close()

    run(tmp_path, work)


def test_the_type_stays(tmp_path: Path) -> None:
    async def work(one: Machine) -> None:
        first = await one.subscription()
        with pytest.raises(SubscriptionMismatch, match="is of type exclusive, not shared"):
            await one.subscription(replace(OPTIONS, kind=Kind.SHARED))
        assert first.stopped is None
        await first.checkpoint()
        await first.delete()
        with pytest.raises(SubscriptionNotFound, match="was deleted"):
            first.join("a")
        shared = await one.subscription(replace(OPTIONS, kind=Kind.SHARED), start=4)
        assert shared.stats({}).partitions[0].mark == 4
        with pytest.raises(CumulativeRefused, match="message by message"):
            await shared.ack_until(0, 3)
        await shared.close()

    run(tmp_path, work)


def test_large_messages_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    """A message that is refused does not keep its neighbours in memory."""
    large = 100_000

    class Large(MemoryCursor):
        async def read(self, max_rows: int, max_bytes: int) -> MessageRun | None:
            await asyncio.sleep(0)
            if self.position >= 200:
                return None
            batch = to_batch([Message(bytes(large))] * min(max_rows, 10), 0)
            found = MessageRun(0, self.position, batch, "e1")
            self.position = found.end
            return found

    async def work(one: Machine) -> None:
        async def cursor(partition: int, offset: int, epoch: str) -> MemoryCursor:
            return Large(one.topic, partition, offset)

        one.topic.cursor = cursor  # type: ignore[method-assign]
        options = replace(
            OPTIONS, kind=Kind.SHARED, max_held_bytes=20 * large, base_delay_seconds=1000.0, max_delay_seconds=1000.0
        )
        subscription = await one.subscription(options)
        consumer = subscription.join("a")
        settled = 0
        most = 0
        while settled < 200:
            for each in await consumer.receive(10, SOON):
                for offset in range(each.first, each.end):
                    settled += 1
                    most = max(most, subscription.stats({}).partitions[0].held_bytes)
                    if offset % 20 == 0:
                        await consumer.nack(0, offset)
                    else:
                        await consumer.ack(0, offset)
        assert most < 32 * large
        assert subscription.stats({}).partitions[0].held_bytes < 21 * large
        await subscription.close()

    run(tmp_path, work)
