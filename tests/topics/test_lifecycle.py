from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.errors import InvalidTopic, OffsetGone, PartitionLocked, TableNotFound, TopicNotFound
from frazil.log.topics.generations import creation, deletion
from frazil.topics.messages import Message
from frazil.topics.read.starts import Start
from frazil.topics.storage import TopicStorage
from tests.query.support import World
from tests.topics.support import TOPIC, Shop, numbered, read_all


async def filled(shop: Shop) -> None:
    """Puts five messages into the table, two into a segment, and one into the tail."""
    await shop.topics.create_topic(TOPIC, 2)
    await shop.segments(5)
    shop.move(TOPIC)
    await shop.segments(2, start=5)
    await shop.topics.store(TOPIC, numbered(7, 1), partition=0)


@pytest.mark.parametrize("drop_table", [True, False])
def test_a_deleted_topic_is_gone_and_one_of_its_name_goes_on(tmp_path: Path, drop_table: bool) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await filled(shop)
            cursor = await shop.topics.cursor(TOPIC, 0)
            deleted = await shop.topics.delete_topic("/shop/orders", drop_table=drop_table)
            assert (deleted.messages, deleted.unmoved) == (8, 8 if drop_table else 3)
            assert await shop.topics.list_topics() == []
            with pytest.raises(TopicNotFound):
                await shop.topics.store(TOPIC, numbered(0, 1))
            with pytest.raises(TopicNotFound, match="was deleted"):
                shop.log.writer(TOPIC, partition=0)
            if drop_table:
                with pytest.raises(OffsetGone):
                    await cursor.read(1, 1)
                with pytest.raises(TableNotFound):
                    shop.table(TOPIC)
            else:
                assert shop.table_offsets() == [0, 1, 2, 3, 4]
        with Shop(tmp_path) as shop:
            assert await shop.topics.create_topic(TOPIC, 3) == 3
            assert (await shop.topics.get_topic_stats(TOPIC)).message_count == 0
            assert await shop.topics.get_write_position(TOPIC) == {0: 8, 1: 0, 2: 0}
            await shop.segments(4)
            shop.move(TOPIC)
            assert shop.table_offsets() == [8, 9, 10, 11]
            await shop.segments(1, start=4)
            assert shop.trim(needed_from=12) == 12
            assert await read_all(await shop.topics.cursor(TOPIC, 0)) == [0, 1, 2, 3, 4]
            cursor = await shop.topics.cursor(TOPIC, 0, Start.at(3))
            with pytest.raises(OffsetGone) as gone:
                await cursor.read(1, 1)
            assert gone.value.first_left == 8

    asyncio.run(body())


def test_what_cannot_be_deleted(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await filled(shop)
            with pytest.raises(TopicNotFound, match="does not exist"):
                await shop.topics.delete_topic("/shop/other", drop_table=True)
            with pytest.raises(InvalidTopic, match="one partition of /shop/orders"):
                await shop.topics.delete_topic("/shop/orders-part-0", drop_table=True)
            other = World(tmp_path)
            try:
                with pytest.raises(PartitionLocked):
                    await TopicStorage(other.log).delete_topic(TOPIC, drop_table=True)
            finally:
                other.log.close(seal=False)
            assert await read_all(await shop.topics.cursor(TOPIC, 0)) == list(range(8)), "nothing happened to it"
            await shop.topics.store(TOPIC, numbered(8, 1), partition=0)

    asyncio.run(body())


def test_messages_that_come_while_a_topic_is_deleted(tmp_path: Path) -> None:
    """Each message is stored before, or refused. None is acknowledged and then appears in the next topic of the
    name."""

    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.initialize_topic(TOPIC)
            outcomes: list[object] = []

            async def produce() -> None:
                for number in range(200):
                    try:
                        outcomes.append((await shop.topics.store(TOPIC, [Message(b"%d" % number)])).first)
                    except TopicNotFound:
                        outcomes.append(None)
                    await asyncio.sleep(0)

            producing = asyncio.create_task(produce())
            while len(outcomes) < 20:
                await asyncio.sleep(0)
            await shop.topics.delete_topic(TOPIC, drop_table=True)
            await producing
            stored = [each for each in outcomes if each is not None]
            assert outcomes == stored + [None] * (200 - len(stored))
            gone = deletion(shop.log.store, TOPIC)
            assert gone is not None
            assert gone.ends == {0: len(stored)}
            await shop.topics.create_topic(TOPIC)
            assert await read_all(await shop.topics.cursor(TOPIC, 0)) == []

    asyncio.run(body())


@pytest.mark.parametrize("step", ["topics.admitted", "topics.deleted", "retire.renamed"])
def test_whoever_is_killed_while_creating_or_deleting_leaves_nothing_in_the_way(tmp_path: Path, step: str) -> None:
    async def before() -> None:
        with Shop(tmp_path) as shop:
            if step != "topics.admitted":
                await filled(shop)
            if step == "retire.renamed":
                await shop.topics.delete_topic(TOPIC, drop_table=False)

    async def after() -> None:
        with Shop(tmp_path) as shop:
            there = creation(shop.log.store, TOPIC) is not None
            assert not there
            if step == "topics.deleted":
                with pytest.raises(TopicNotFound):
                    await shop.topics.delete_topic(TOPIC, drop_table=True)
                assert not list(shop.log.store.list(f"queue/{TOPIC}/00000/0")), "it was tidied up"
            await shop.topics.create_topic(TOPIC, 2)
            await shop.segments(3)
            shop.move(TOPIC)
            assert await read_all(await shop.topics.cursor(TOPIC, 0)) == [0, 1, 2]
            first = 0 if step == "topics.admitted" else 8
            assert shop.table_offsets() == list(range(first, first + 3))

    asyncio.run(before())
    command = [sys.executable, "-m", "tests.topics.test_lifecycle", str(tmp_path), step]
    done = subprocess.run(command, env={**os.environ, "FRAZIL_FAILPOINT": step}, timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL
    asyncio.run(after())


async def _die(folder: Path, step: str) -> None:
    with World(folder) as world:
        topics = TopicStorage(world.log)
        if step == "topics.deleted":
            await topics.delete_topic(TOPIC, drop_table=True)
        else:
            await topics.create_topic(TOPIC, 2)


if __name__ == "__main__":
    asyncio.run(_die(Path(sys.argv[1]), sys.argv[2]))
