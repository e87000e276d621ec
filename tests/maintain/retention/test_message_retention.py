"""Tests retention of topics of messages: from the front of each partition, and not before subscriptions have them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from frazil.config.model import Config
from frazil.errors import OffsetGone
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.complete_offsets import complete_from
from frazil.lake.tables.tables import base_identifier
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.operations import run_operation
from frazil.maintain.report import OperationReport
from frazil.maintain.retention.retention import Retention
from frazil.maintain.trimming.trimming import Trimming
from frazil.topics.messages import Message
from frazil.topics.read.starts import EARLIEST, LATEST, Start
from frazil.topics.subscription_manager import SubscriptionManager
from frazil.topics.subscriptions.options import Kind
from tests.examples import examples
from tests.log.support import ManualClock
from tests.maintain.support import SparkFor, maintenance_context
from tests.topics.support import LOTS, TOPIC, Shop, read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400_000
NOW = 20_000 * DAY
GIB = 1024**3
SIZE = 2000
"""The size of a payload, which is most of the size of a file."""


def limited(topic: str = TOPIC, **table: Any) -> dict[str, Any]:
    return {"topics": {topic: {"table": table}}}


async def put(shop: Shop, days: list[float], partition: int = 0, topic: str = TOPIC) -> None:
    """Puts messages of these ages in days, in this order, as one file of the table."""
    at = (await shop.topics.get_write_position(topic))[partition]
    batch = [Message(str(at + number).encode(), NOW - int(day * DAY)) for number, day in enumerate(days)]
    await shop.topics.store(topic, batch, partition=partition)
    shop.seal(topic, partition)
    shop.move(topic)


async def put_large(shop: Shop, partition: int, count: int, days: float, seed: int = 0) -> None:
    """Puts messages into a file whose size is about `count` times that of a payload."""
    text = [f"{seed}-{partition}-{number}" * (SIZE // 5) for number in range(count)]
    batch = [Message(each.encode()[:SIZE], NOW - int(days * DAY)) for each in text]
    await shop.topics.store(TOPIC, batch, partition=partition)
    shop.seal(TOPIC, partition)
    shop.move(TOPIC)


def drop(shop: Shop, topic: str = TOPIC, *, spark: SparkSession | None = None, **table: Any) -> OperationReport:
    """Runs retention, with the given limits or those of the shop."""
    config = shop.config
    if table:
        data = config.model_dump() | limited(topic, **table)
        config = type(config).model_validate(data)
    clock = ManualClock()
    clock.ms = NOW
    target = MaintainedTable(base_identifier(config, topic), topic, "base")
    return run_operation(maintenance_context(Lake(config), spark=spark, clock=clock), Retention(), target, False)


def trim_log(shop: Shop, config: Config | None = None) -> None:
    """Trims everything that the table has from the log, unless the settings keep it."""
    clock = ManualClock()
    target = MaintainedTable(base_identifier(shop.config, TOPIC), TOPIC, "base")
    for _ in range(2):
        run_operation(maintenance_context(Lake(config or shop.config), clock=clock), Trimming(), target, False)
        clock.advance(3601)


def run(folder: Path, body: Callable[[Shop], Awaitable[None]], partitions: int = 1, **table: Any) -> None:
    async def whole() -> None:
        with Shop(folder, **limited(**table)) as shop:
            await shop.topics.create_topic(TOPIC, partitions)
            await body(shop)

    asyncio.run(whole())


async def subscribe(shop: Shop, name: str, start: Start, acknowledged: int = 0, partition: int | None = None) -> None:
    """Makes a subscription that has acknowledged this much of each partition and is not connected now."""
    subscriptions = SubscriptionManager(shop.topics, shop.log, "a test")
    namespace, _, topic = TOPIC.partition(".")
    where = TOPIC if partition is None else f"/{namespace}/{topic}-part-{partition}"
    one = await subscriptions.subscribe(where, name, Kind.EXCLUSIVE, start)
    consumer = one.join("c")
    while acknowledged > 0:
        received = await consumer.receive(acknowledged)
        await consumer.ack_all(received)
        acknowledged -= sum(len(each.batch) for each in received)
    await subscriptions.close()


def test_old_messages_go_by_the_time_they_were_published_and_readers_are_told(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for days in ([9, 8], [7, 6], [4, 3], [2, 1]):
            await put(shop, list(days))
        reader = await shop.topics.cursor(TOPIC, 0, Start.at(1))
        report = drop(shop)
        assert (report.outcome, report.work.after.rows) == ("done", 4), report.work.note
        assert shop.table_offsets() == [4, 5, 6, 7]
        assert await read_all(reader) == list(range(1, 8)), "the log has them"
        trim_log(shop)
        reader.seek(1)
        with pytest.raises(OffsetGone, match="from offset 1 on are gone") as gone:
            await reader.read(10, LOTS)
        assert gone.value.first_left == 4
        reader.seek(4)
        assert await read_all(reader) == [4, 5, 6, 7]
        assert drop(shop).outcome == "nothing"

    run(tmp_path, body, retention_days=5)


def test_messages_wait_for_subscriptions_up_to_their_limit(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for day in (20, 12, 8, 6, 1):
            await put(shop, [day, day])
        await subscribe(shop, "fast", LATEST)
        await subscribe(shop, "slow", EARLIEST, acknowledged=3)
        report = drop(shop)
        assert report.outcome == "done"
        assert shop.table_offsets() == list(range(2, 10)), "3 of the second file are not acknowledged"
        assert complete_from(shop.table(TOPIC)) == {0: 2}
        assert (
            "3 files with such rows stay until they have been read by subscription 'slow' of topic shop.orders "
            in (report.work.note)
        )
        assert "(at 3 of partition 0, which goes to 10)" in report.work.note
        assert "fast" not in report.work.note
        assert drop(shop).outcome == "skipped"
        assert drop(shop, retention_days=5, subscription_retention_days=13).outcome == "skipped"
        assert drop(shop, retention_days=5, subscription_retention_days=10).outcome == "done"
        assert shop.table_offsets() == list(range(4, 10))

    run(tmp_path, body, retention_days=5)


def test_a_subscriber_whose_messages_are_gone_is_told_the_first_that_are_left(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for day in (9, 8, 1):
            await put(shop, [day, day])
        await subscribe(shop, "slow", EARLIEST, acknowledged=1)
        assert drop(shop).outcome == "done"
        trim_log(shop)
        subscriptions = SubscriptionManager(shop.topics, shop.log, "a test")
        slow = await subscriptions.existing(TOPIC, "slow")
        with pytest.raises(OffsetGone) as gone:
            await slow.join("c").receive(10)
        assert gone.value.first_left == 4
        await subscriptions.close()

    run(tmp_path, body, retention_days=5, subscription_retention_days=7)


def test_a_subscription_that_was_deleted_holds_nothing(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await put(shop, [9, 8])
        await subscribe(shop, "slow", EARLIEST)
        assert drop(shop).outcome == "skipped"
        subscriptions = SubscriptionManager(shop.topics, shop.log, "a test")
        await (await subscriptions.existing(TOPIC, "slow")).delete()
        await subscriptions.close()
        assert drop(shop).outcome == "done"
        assert shop.table_offsets() == []

    run(tmp_path, body, retention_days=5)


def test_a_subscription_to_one_partition_holds_that_one(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for partition in (0, 1):
            await put(shop, [9, 8], partition)
        await subscribe(shop, "of one", EARLIEST, partition=1)
        assert drop(shop).outcome == "done"
        assert (shop.table_offsets(0), shop.table_offsets(1)) == ([], [0, 1])

    run(tmp_path, body, partitions=2, retention_days=5)


def test_topics_without_a_namespace_have_subscriptions_too(tmp_path: Path) -> None:
    async def whole() -> None:
        with Shop(tmp_path, **limited("orders", retention_days=5)) as shop:
            await shop.topics.create_topic("orders", 1)
            await put(shop, [9, 8], topic="orders")
            subscriptions = SubscriptionManager(shop.topics, shop.log, "a test")
            await subscriptions.subscribe("orders", "slow", Kind.EXCLUSIVE, EARLIEST)
            await subscriptions.close()
            assert drop(shop, "orders").outcome == "skipped"

    asyncio.run(whole())


def test_a_message_with_a_time_long_past_goes_when_those_before_it_go(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for days in ([9], [1], [5000], [1]):
            await put(shop, list(days))
        assert drop(shop).outcome == "done"
        assert shop.table_offsets() == [1, 2, 3]
        assert complete_from(shop.table(TOPIC)) == {0: 1}
        assert drop(shop).outcome == "nothing"
        assert drop(shop, retention_days=0.5).outcome == "done"
        assert shop.table_offsets() == []

    run(tmp_path, body, retention_days=5)


def test_a_message_with_a_time_to_come_does_not_keep_a_table_from_its_size(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for number, day in enumerate((9, -5000, 8, 7)):
            await put_large(shop, 0, 10, day, seed=number)
        assert drop(shop, retention_days=5).outcome == "done"
        assert shop.table_offsets()[0] == 10
        assert drop(shop, retention_days=5).outcome == "nothing"
        assert drop(shop, retention_gb=1e-9).outcome == "done"
        assert shop.table_offsets() == list(range(30, 40))

    run(tmp_path, body)


def test_a_table_that_dropped_its_messages_is_read_from_the_log_that_kept_them(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for day in (9, 8, 1):
            await put(shop, [day, day])
        assert drop(shop).outcome == "done"
        data = shop.config.model_dump() | {"topics": {TOPIC: {"log_retention_gb": 1}}}
        trim_log(shop, config=type(shop.config).model_validate(data))
        reader = await shop.topics.cursor(TOPIC, 0, EARLIEST)
        assert await read_all(reader) == list(range(6))

    run(tmp_path, body, retention_days=5)


def test_files_that_were_joined_over_partitions(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for partition, days in ((0, [9.0, 8.0, 7.0]), (1, [9.0])):
            await put(shop, days, partition)
        shop.compact(TOPIC)
        await put(shop, [1], 1)
        await subscribe(shop, "slow", Start.at({0: 3, 1: 0}))
        report = drop(shop)
        assert report.outcome == "skipped"
        assert "(at 0 of partition 1, which goes to 2)" in report.work.note
        assert drop(shop, retention_days=5, subscription_retention_days=6).outcome == "done"
        assert (shop.table_offsets(0), shop.table_offsets(1)) == ([], [1])
        assert complete_from(shop.table(TOPIC)) == {0: 3, 1: 1}

    run(tmp_path, body, partitions=2, retention_days=5)


def test_a_table_keeps_its_size(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for day in range(9, 1, -1):
            await put_large(shop, 1 if day % 3 else 0, 10, day, seed=day)
        sizes = [task.file.file_size_in_bytes for task in shop.table(TOPIC).scan().plan_files()]
        room = sum(sorted(sizes)[-4:]) + 10
        before = {partition: shop.table_offsets(partition) for partition in (0, 1)}
        assert drop(shop, retention_gb=sum(sizes) / GIB).outcome == "nothing"
        await subscribe(shop, "slow", EARLIEST)
        assert drop(shop, retention_gb=room / GIB).outcome == "skipped"
        report = drop(shop, retention_gb=room / GIB, subscription_retention_gb=room / GIB)
        assert report.outcome == "done", report.work.note
        assert "the oldest files beyond" in report.work.note
        assert report.work.after.files == 5, "with one less it would have less than it may have"
        for partition, offsets in before.items():
            left = shop.table_offsets(partition)
            assert left == offsets[len(offsets) - len(left) :], "what is left has no hole"
        # Of the eight files, the three of the oldest days were removed, whatever their partition.
        assert (len(shop.table_offsets(0)), len(shop.table_offsets(1))) == (20, 30)

    run(tmp_path, body, partitions=2)


def test_a_file_with_older_and_younger_messages_is_written_again(tmp_path: Path, spark_for: SparkFor) -> None:
    async def body(shop: Shop) -> None:
        await put(shop, [9, 8, 7, 6, 4, 7, 3])
        await put(shop, [20, 1], 1)
        shop.compact(TOPIC)
        spark = spark_for(shop.config)
        await subscribe(shop, "slow", Start.at({0: 2, 1: 1}))
        assert drop(shop, spark=spark).outcome == "done"
        assert shop.table_offsets(0) == [2, 3, 4, 5, 6]
        assert shop.table_offsets(1) == [1]
        assert complete_from(shop.table(TOPIC)) == {0: 2, 1: 1}
        assert drop(shop, retention_days=5, subscription_retention_days=5, spark=spark).outcome == "done"
        assert shop.table_offsets(0) == [4, 5, 6], "5 is old, but 4 is not"
        assert drop(shop).outcome == "nothing", "there is nothing more at the front"

    run(tmp_path, body, partitions=2, retention_days=5)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 1), st.integers(0, 12)),
        st.tuples(st.just("subscribe"), st.integers(0, 2), st.integers(0, 4)),
        st.tuples(st.just("drop"), st.integers(3, 8), st.integers(0, 12)),
    ),
    min_size=4,
    max_size=12,
)


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
@example([("put", 1, 5), ("put", 1, 11), ("subscribe", 0, 2), ("drop", 3, 7)])
def test_only_what_is_past_its_limits_goes_and_from_the_front(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    """Each file has messages of one time, in any order. What is removed must be old, and leave no gap."""

    async def body(shop: Shop) -> None:
        times: dict[int, list[int]] = {0: [], 1: []}
        first = {0: 0, 1: 0}
        marks: dict[int, dict[int, int]] = {}
        for step, number, value in steps:
            if step == "put":
                await put(shop, [value, value], number)
                times[number] += [value, value]
            elif step == "subscribe" and number not in marks:
                at = {each: min(value + first[each], len(times[each])) for each in times}
                await subscribe(shop, f"s{number}", Start.at(at))
                marks[number] = at
            elif step == "drop" and any(times.values()):
                drop(shop, retention_days=number + 0.5, subscription_retention_days=value + 0.5)
                for each, ages in times.items():
                    left = shop.table_offsets(each)
                    begin = left[0] if left else len(ages)
                    assert left == list(range(begin, len(ages)))
                    assert complete_from(shop.table(TOPIC)).get(each, 0) <= begin
                    held = min((mark[each] for mark in marks.values()), default=len(ages))
                    gone = range(first[each], begin)
                    assert all(ages[offset] > number for offset in gone)
                    assert all(ages[offset] > value for offset in gone if offset >= held)
                    # Only whole files are removed, so old messages that stay share their file with others.
                    if begin < len(ages):
                        file = range(begin, begin + 2)
                        free = all(offset < held for offset in file) or ages[begin] > value
                        assert ages[begin] <= number or not free
                    first[each] = begin

    run(tmp_path_factory.mktemp("walk"), body, partitions=2)
