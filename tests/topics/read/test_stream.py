from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from frazil.errors import OffsetGone
from frazil.topics.messages import MessageRun
from frazil.topics.read.starts import LATEST, Start
from frazil.topics.read.stream import stream
from frazil.topics.storage import TopicStorage
from tests.topics.support import TOPIC, Shop, numbered, numbers


def test_all_partitions_in_order_then_what_comes(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC, 3)
            for partition in range(3):
                await shop.segments(10, 10, partition=partition)
            shop.move(TOPIC)
            shop.trim(0)
            await shop.topics.store(TOPIC, numbered(20, 5), partition=1)
            ended: dict[int, list[MessageRun]] = defaultdict(list)
            async for run in await shop.topics.create_message_stream(TOPIC, follow=False):
                ended[run.partition].append(run)
            expected = {0: list(range(20)), 1: list(range(25)), 2: list(range(20))}
            assert {partition: numbers(runs) for partition, runs in ended.items()} == expected

            found: dict[int, list[int]] = defaultdict(list)
            runs = await shop.topics.create_message_stream("/shop/orders", Start.at({1: 20, 2: 3}))
            async for run in runs:
                assert run.first == (len(found[run.partition]) + {0: 0, 1: 20, 2: 3}[run.partition])
                found[run.partition] += numbers([run])
                if sum(map(len, found.values())) == 42:
                    await shop.topics.store(TOPIC, numbered(25, 2), partition=1)
                if sum(map(len, found.values())) == 44:
                    break
            await runs.aclose()  # type: ignore[attr-defined]
            assert found == {0: list(range(20)), 1: list(range(20, 27)), 2: list(range(3, 20))}
            assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(body())


def test_one_partition_by_its_name(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC, 2)
            await shop.segments(3, partition=1)
            runs = await shop.topics.create_message_stream("/shop/orders-part-1", follow=False)
            assert numbers([run async for run in runs]) == [0, 1, 2]
            runs = await shop.topics.create_message_stream("/shop/orders-part-1", LATEST, follow=False)
            assert [run async for run in runs] == []

    asyncio.run(body())


def test_no_more_is_read_ahead_than_allowed(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            topics = TopicStorage(shop.log, prefetch=2)
            await topics.create_topic(TOPIC, 2)
            for partition in range(2):
                await shop.segments(5, 5, 5, 5, 5, 5, partition=partition)
            read: list[int] = []
            cursors = [await topics.cursor(TOPIC, partition) for partition in range(2)]
            runs = stream(cursors, prefetch=2, ends={0: 30, 1: 30}, max_rows=5)
            async for run in runs:
                read.append(run.partition)
                await asyncio.sleep(0.05)
                for cursor in cursors:
                    taken = 5 * read.count(cursor.partition)
                    assert cursor.position <= taken + 10
            assert sorted(read) == [0] * 6 + [1] * 6

    asyncio.run(body())


def test_what_goes_wrong_in_one_partition_ends_the_stream(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC, 2)
            await shop.segments(5, 5, partition=0)
            await shop.segments(5, 5, partition=1)
            shop.trim(1)
            runs = await shop.topics.create_message_stream(TOPIC, Start.at(0))

            async def consume() -> None:
                async for run in runs:
                    assert run.partition == 0

            with pytest.raises(OffsetGone) as gone:
                await consume()
            assert gone.value.first_left == 5

    asyncio.run(body())
