from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.errors import (
    InvalidMessage,
    InvalidTopic,
    RecordTooLarge,
    RequestError,
    SequenceTooOld,
    ShutdownError,
    TopicMismatch,
    TopicNotFound,
)
from frazil.topics.interface import Producer, SubscriptionStats
from frazil.topics.messages import Message, from_batch
from frazil.topics.read.starts import LATEST
from frazil.topics.routing import partition_of
from frazil.topics.storage import TopicStorage
from tests.topics.support import LOTS, TOPIC, Shop, numbered, read_all


def test_the_number_of_partitions_is_that_of_the_first_who_created_it(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            both = await asyncio.gather(*(TopicStorage(shop.log).create_topic(TOPIC, n) for n in (3, 5)))
            assert len(set(both)) == 1
            assert await shop.topics.create_topic("/shop/orders", 9) == both[0]
        with Shop(tmp_path) as shop:
            assert await shop.topics.partitions(TOPIC) == both[0]
            assert await shop.topics.get_write_position(TOPIC) == dict.fromkeys(range(both[0]), 0)

    asyncio.run(body())


@pytest.mark.parametrize(
    ("name", "partitions", "words"),
    [
        ("/shop", 1, "two names"),
        (TOPIC, 0, "0 partitions"),
        (TOPIC, 10_001, "10,001 partitions"),
        ("x-part-1", 1, "-part-N"),
    ],
)
def test_topics_that_cannot_be(tmp_path: Path, name: str, partitions: int, words: str) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            with pytest.raises(InvalidTopic, match=words):
                await shop.topics.create_topic(name, partitions)
            assert await shop.topics.list_topics() == []

    asyncio.run(body())


def test_a_topic_of_something_else_is_not_taken_over(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            shop.append("orders", pa.record_batch({"id": [1]}))
            with pytest.raises(TopicMismatch, match="not one of messages"):
                await shop.topics.create_topic("orders")
            with pytest.raises(TopicMismatch, match="not one of messages: read its rows with SQL"):
                await shop.topics.store("orders", [Message(b"")])

    asyncio.run(body())


@pytest.mark.parametrize("name", ["logs", "/frazil/metrics", "spans", "clicks"])
def test_a_topic_of_another_door_is_not_taken_before_its_first_record(tmp_path: Path, name: str) -> None:
    kafka = {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]}
    closed = {"enabled": False}

    async def body() -> None:
        with Shop(tmp_path / "open", kafka=kafka) as shop:
            with pytest.raises(TopicMismatch, match="another door of this server fills it"):
                await shop.topics.create_topic(name)
            with pytest.raises(TopicMismatch, match="another door of this server fills it"):
                await shop.topics.ensure_topic(name, 1)
            assert await shop.topics.list_topics() == []
        with Shop(tmp_path / "closed", otlp=closed, loki=closed, prometheus=closed) as shop:
            assert await shop.topics.create_topic(name) == 1

    asyncio.run(body())


def test_what_was_stored_can_be_read_with_all_its_fields(tmp_path: Path) -> None:
    async def body() -> None:
        whole = Message(b"\x00\xff", 5, "me", {"a": "1", "b": ""}, "key", 2**63 - 1, 3)
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            stored = await shop.topics.store(TOPIC, [whole, Message(b"")])
            assert (stored.first, stored.offsets) == (0, [(0, 0), (0, 1)])
            for place in ("tail", "segment", "table"):
                if place == "segment":
                    shop.seal(TOPIC)
                if place == "table":
                    shop.move(TOPIC)
                    # The newest segment always stays, so there must be another one.
                    await shop.topics.store(TOPIC, [Message(b"")])
                    shop.seal(TOPIC)
                    assert shop.trim() == 2
                cursor = await shop.topics.cursor(TOPIC, 0)
                run = await cursor.read(2, LOTS)
                assert run is not None
                first, second = from_batch(run.batch)
                assert first == whole, place
                assert (second.payload, second.attributes, second.routing_key) == (b"", {}, None), place
                assert run.epoch == stored.runs[0].epoch, place

    asyncio.run(body())


def test_topics_are_tables(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            await shop.segments(3)
            shop.move(TOPIC)
            await shop.topics.store(TOPIC, numbered(3, 2))
            assert shop.table(TOPIC).name() == ("shop", "orders")
            rows = frazil.read(TOPIC, config=shop.config).table().sort_by("_offset")
            assert rows["payload"].to_pylist() == [b"0", b"1", b"2", b"3", b"4"]

    asyncio.run(body())


def test_messages_go_to_the_partition_of_their_key(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC, 3)
            keys = [f"key {number % 7}" for number in range(50)]
            messages = [Message(str(at).encode(), routing_key=key) for at, key in enumerate(keys)]
            stored = await shop.topics.store(TOPIC, messages)
            assert [partition for partition, _ in stored.offsets] == [partition_of(key, 3) for key in keys]
            for partition in range(3):
                cursor = await shop.topics.cursor(TOPIC, partition)
                offsets = {at: number for number, (where, at) in enumerate(stored.offsets) if where == partition}
                assert await read_all(cursor) == [offsets[at] for at in sorted(offsets)]
                assert list(offsets.values()) == sorted(offsets.values()), "the order of a partition is that given"

    asyncio.run(body())


def test_messages_without_a_key_take_turns_and_stay_together(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC, 3)
            runs = [(await shop.topics.store(TOPIC, numbered(0, 4))).runs for _ in range(6)]
            assert [(run.partition, run.first) for (run,) in runs] == [(0, 0), (1, 0), (2, 0), (0, 4), (1, 4), (2, 4)]
            (run,) = (await shop.topics.store("/shop/orders-part-1", numbered(0, 1))).runs
            assert run.partition == 1
            (run,) = (await shop.topics.store(TOPIC, numbered(0, 1), routing_key="k")).runs
            assert run.partition == partition_of("k", 3)

    asyncio.run(body())


def test_rows_of_arrow_are_messages_too(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            await shop.topics.store(TOPIC, pa.record_batch({"payload": [b"7", b"8"]}))
            assert await read_all(await shop.topics.cursor(TOPIC, 0)) == [7, 8]

    asyncio.run(body())


def test_a_repeated_append_is_stored_once_and_keeps_its_offset(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC, 2)
            keyed = [Message(str(number).encode(), routing_key=f"k{number}") for number in range(10)]
            first = await shop.topics.store(TOPIC, keyed, producer=Producer("p", 1))
            alone = await shop.topics.store(TOPIC, numbered(10, 1), producer=Producer("p", 2))
            assert not any(run.duplicate for run in (*first.runs, *alone.runs))
            shop.kill()
        for step in ("tail", "segment", "table"):
            with Shop(tmp_path) as shop:
                again = await shop.topics.store(TOPIC, keyed, producer=Producer("p", 1))
                assert again.offsets == first.offsets, step
                assert all(run.duplicate for run in again.runs), step
                twice = await asyncio.gather(
                    *(shop.topics.store(TOPIC, numbered(10, 1), producer=Producer("p", 2)) for _ in range(3))
                )
                assert all(each.offsets == alone.offsets for each in twice), step
                assert sum((await shop.topics.get_write_position(TOPIC)).values()) == 11
                if step == "tail":
                    for partition in range(2):
                        shop.seal(TOPIC, partition)
                if step == "segment":
                    shop.move(TOPIC)
                shop.kill()

    asyncio.run(body())


def test_a_number_used_for_something_else_is_told(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            for sequence in range(1, 9):
                await shop.topics.store(TOPIC, numbered(0, 2), producer=Producer("p", sequence))
            with pytest.raises(InvalidMessage, match="sent 3 messages under a number under which it had sent 2"):
                await shop.topics.store(TOPIC, numbered(0, 3), producer=Producer("p", 8))
            with pytest.raises(SequenceTooOld, match="repeats sequence 1"):
                await shop.topics.store(TOPIC, numbered(0, 2), producer=Producer("p", 1))
            with pytest.raises(InvalidMessage, match="-1 cannot be a producer's number"):
                await shop.topics.store(TOPIC, numbered(0, 2), producer=Producer("p", -1))
            with pytest.raises(InvalidMessage, match="cannot be the id of a producer"):
                await shop.topics.store(TOPIC, numbered(0, 2), producer=Producer("", 1))
            assert await shop.topics.get_write_position(TOPIC) == {0: 16}

    asyncio.run(body())


def test_bad_requests_store_nothing(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path, log={"max_append_mb": 1, "seal": {"interval_seconds": 3600.0}}) as shop:
            await shop.topics.create_topic(TOPIC, 2)
            with pytest.raises(InvalidMessage, match="no messages were given"):
                await shop.topics.store(TOPIC, [])
            with pytest.raises(InvalidTopic, match="no partition 2: it has 2, from 0 on"):
                await shop.topics.store(TOPIC, numbered(0, 1), partition=2)
            with pytest.raises(RequestError, match="is partition 1, not 0"):
                await shop.topics.store("/shop/orders-part-1", numbered(0, 1), partition=0)
            with pytest.raises(RecordTooLarge, match="over the limit"):
                await shop.topics.store(TOPIC, [Message(bytes(2 << 20))])
            with pytest.raises(TopicNotFound, match=r"'shop\.order' does not exist.*Did you mean 'shop\.orders'"):
                await shop.topics.store("/shop/order", numbered(0, 1))
            assert await shop.topics.get_write_position(TOPIC) == {0: 0, 1: 0}

    asyncio.run(body())


def test_a_list_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    """Many tasks append at once, and one of them dies. No list is torn or mixed with another."""

    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            appends = (shop.topics.store(TOPIC, numbered(100 * at, 1 + at % 7)) for at in range(60))
            stored = await asyncio.gather(*appends)
            shop.kill()
        with Shop(tmp_path) as shop:
            found = await read_all(await shop.topics.cursor(TOPIC, 0))
            for at, each in enumerate(stored):
                assert found[each.first : each.first + 1 + at % 7] == list(range(100 * at, 100 * at + 1 + at % 7))
            assert len(found) == sum(1 + at % 7 for at in range(60))

    asyncio.run(body())


def test_stats(tmp_path: Path) -> None:
    async def lags(topic: str) -> dict[str, SubscriptionStats]:
        return {"billing": SubscriptionStats({0: 4}, consumers=2)} if topic == TOPIC else {}

    async def body() -> None:
        with Shop(tmp_path) as shop:
            topics = TopicStorage(shop.log, subscriptions=lags)
            await topics.create_topic(TOPIC, 2)
            empty = await topics.get_topic_stats(TOPIC)
            assert (empty.message_count, empty.bytes_stored) == (0, 0)
            assert empty.partitions[0].last is None
            await shop.segments(10, 5)
            shop.move(TOPIC)
            await shop.segments(3, start=15)
            await topics.store(TOPIC, numbered(18, 2), partition=0)
            await topics.store(TOPIC, numbered(0, 1), partition=1)
            for trimmed in (False, True):
                if trimmed:
                    assert shop.trim(needed_from=15) == 15
                stats = await topics.get_topic_stats("/shop/orders")
                first, second = stats.partitions[0], stats.partitions[1]
                assert (first.first, first.last, first.end, first.committed) == (0, 19, 20, 15)
                assert (first.hot, first.cold) == (5, 15)
                assert (second.first, second.last, second.hot, second.cold) == (0, 0, 1, 0)
                assert (stats.message_count, stats.hot_messages, stats.cold_messages) == (21, 6, 15)
                assert stats.hot_bytes > 0 < stats.cold_bytes
                assert stats.subscriptions["billing"].total == 4
            assert await topics.get_write_position(TOPIC) == {0: 20, 1: 1}
            assert await topics.get_committed_position(TOPIC) == {0: 15, 1: 0}

    asyncio.run(body())


def test_shutdown_finishes_what_is_under_way_and_refuses_the_rest(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path, log={"sync": "always", "seal": {"interval_seconds": 3600.0}}) as shop:
            await shop.topics.initialize_topic(TOPIC, 2)
            under_way = [asyncio.create_task(shop.topics.store(TOPIC, numbered(at, 1))) for at in range(20)]
            await asyncio.sleep(0)
            await shop.topics.shutdown()
            assert len({each for task in under_way for each in (await task).offsets}) == 20
            with pytest.raises(ShutdownError, match="shutting down"):
                await shop.topics.store(TOPIC, numbered(0, 1))
            assert shop.log.writers == []
            ends = {partition: shop.log.reader(TOPIC, partition).bounds() for partition in range(2)}
            assert [(each.sealed_end, each.end) for each in ends.values()] == [(10, 10), (10, 10)]
        with Shop(tmp_path) as shop:
            assert (await shop.topics.cursor(TOPIC, 0, LATEST)).position == 10

    asyncio.run(body())
