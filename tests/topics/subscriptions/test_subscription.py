"""A subscription at work, with a real journal and a real store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import (
    ConfigError,
    ConsumerGone,
    ConsumerRefused,
    CumulativeRefused,
    EpochChanged,
    NotDelivered,
    OffsetGone,
    RequestError,
    StorageUnavailable,
    SubscriptionFenced,
    SubscriptionMismatch,
    SubscriptionNotFound,
)
from frazil.log.epochs import Epochs
from frazil.log.store import ObjectStore
from frazil.log.store.local import LocalStore
from frazil.topics.messages import Message, Records, from_batch, to_batch
from frazil.topics.subscriptions.checkpoints import newest
from frazil.topics.subscriptions.consumer import Consumer
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.journal import Journal
from frazil.topics.subscriptions.options import Kind, Options
from frazil.topics.subscriptions.places import Place
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription import Subscription
from tests.topics.subscriptions.support import MemoryCursor, MemoryTopic, key_of, payload_of
from tests.topics.subscriptions.test_journal import crash

PLACE = Place("billing", "shop", "orders")
OPTIONS = Options(
    window=100, prefetch_size=40, base_delay_seconds=0.01, max_delay_seconds=0.05, ack_timeout_seconds=None
)
SOON = 20.0
"""Longer than anything here takes; nothing waits so long when all is well."""


class Machine:
    """A data folder; its process can be started anew."""

    def __init__(self, folder: Path, store: ObjectStore, topic: MemoryTopic) -> None:
        self.folder = folder
        self.store = store
        self.topic = topic
        self.journal: Journal | None = None
        self.letters: dict[str, Message] = {}
        self.bury_fails = 0

    async def subscription(self, options: Options = OPTIONS, place: Place = PLACE, start: int = 0) -> Subscription:
        if self.journal is None:
            self.journal = await Journal.open(self.folder)

        async def birth() -> dict[int, Progress]:
            return {partition: Progress(start) for partition in self.topic.ends}

        return await Subscription.open(
            place,
            options,
            store=self.store,
            journal=self.journal,
            cursors=self.topic.cursor,
            birth=birth,
            partitions=self.topic.ends,
            process=f"process at {self.folder.name}",
            bury=self.bury,
            checkpoint_seconds=1000.0,
        )

    async def bury(self, name: str, message: Message) -> None:
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
    """Exactly so many messages."""
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
    """Also before this process has read it; but nobody can acknowledge what does not exist."""

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
    """Of a subscription that is not consumed, nothing is read; of a slow one, what it may read ahead."""

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
                birth=no_birth,
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
        assert again._delivery.lanes[0].progress == Progress(min(acknowledged, 7), "e2", 1, [(8, 9)])
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


def test_checkpoints_that_somebody_gave_up_waiting_for(tmp_path: Path) -> None:
    """The last one has everything, whatever was still on its way."""

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

    async def read(self, max_rows: int, max_bytes: int) -> Records | None:
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
    async def read(self, max_rows: int, max_bytes: int) -> Records | None:
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


def test_large_messages_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    """One that is refused does not keep those around it in memory."""
    large = 100_000

    class Large(MemoryCursor):
        async def read(self, max_rows: int, max_bytes: int) -> Records | None:
            await asyncio.sleep(0)
            if self.position >= 200:
                return None
            batch = to_batch([Message(bytes(large))] * min(max_rows, 10), 0)
            found = Records(0, self.position, batch, "e1")
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
