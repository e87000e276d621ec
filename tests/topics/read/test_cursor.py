"""Tests that a cursor follows offsets wherever the messages are, and whatever happens to files meanwhile."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from frazil.errors import EpochChanged, OffsetGone, OffsetOutOfRange, RequestError, TableDropped
from frazil.log import layout
from frazil.topics.interface import Producer
from frazil.topics.messages import Message
from frazil.topics.read import data_file, table_runs
from frazil.topics.read.starts import EARLIEST, LATEST, Start
from frazil.topics.storage import TopicStorage
from tests.query.support import World
from tests.topics.support import LOTS, TOPIC, Shop, numbered, numbers, read_all


async def everywhere(shop: Shop, partitions: int = 1) -> None:
    """Puts numbers 0 to 29 into the table only, to 39 into both, to 49 into a segment, and to 54 into the tail."""
    await shop.topics.create_topic(TOPIC, partitions)
    for start in (0, 10, 20, 30):
        await shop.segments(10, start=start)
        shop.move(TOPIC)
    await shop.segments(10, start=40)
    await shop.topics.store(TOPIC, numbered(50, 5), partition=0)
    assert shop.trim(needed_from=30) == 30


@pytest.mark.parametrize(("max_rows", "max_bytes"), [(LOTS, LOTS), (1, LOTS), (7, LOTS), (LOTS, 1), (LOTS, 300)])
def test_from_the_table_through_segments_to_the_tail(tmp_path: Path, max_rows: int, max_bytes: int) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await everywhere(shop)
            end = 55
            for start in (0, 9, 10, 29, 30, 39, 40, 45, 50, 54, 55):
                cursor = await shop.topics.cursor(TOPIC, 0, Start.at(start))
                assert await read_all(cursor, max_rows, max_bytes) == list(range(start, end))
                await shop.topics.store(TOPIC, numbered(end, 3), partition=0)
                end += 3
                assert await read_all(cursor, max_rows, max_bytes) == list(range(end - 3, end))
                cursor.seek(start)
                assert await read_all(cursor) == list(range(start, end))

    asyncio.run(body())


def test_a_run_is_no_larger_than_asked_for(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            for _ in range(2):
                await shop.topics.store(TOPIC, [Message(bytes(1000)) for _ in range(20)])
                shop.seal(TOPIC)
            shop.move(TOPIC)
            shop.trim()
            await shop.topics.store(TOPIC, [Message(bytes(1000)) for _ in range(20)])
            cursor = await shop.topics.cursor(TOPIC, 0)
            sizes = []
            while (run := await cursor.read(LOTS, 5000)) is not None:
                assert run.batch.nbytes <= 5000
                sizes.append(len(run.batch))
            assert sum(sizes) == 60
            assert min(sizes[:4]) > 1, "several fit"
            with pytest.raises(RequestError, match="ask for 1 or more"):
                await cursor.read(0, 1)

    asyncio.run(body())


def test_where_a_reader_begins(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await everywhere(shop, partitions=2)

            async def begin(start: Start, partition: int = 0) -> int:
                return (await shop.topics.cursor(TOPIC, partition, start)).position

            assert [await begin(EARLIEST), await begin(LATEST), await begin(Start.at(7))] == [0, 55, 7]
            assert [await begin(EARLIEST, 1), await begin(LATEST, 1)] == [0, 0]
            assert await begin(Start.at({0: 3})) == 3
            assert await begin(Start.at({0: 3}), 1) == 0
            with pytest.raises(RequestError, match="-1 is no offset"):
                Start.at(-1)
            shop.retain(12)
            assert await begin(EARLIEST) == 12
            beyond = await shop.topics.cursor(TOPIC, 0, Start.at(56))
            with pytest.raises(OffsetOutOfRange, match="ends at 55"):
                await beyond.read(1, 1)

    asyncio.run(body())


CHANGES = {
    "sealed": "seal",
    "moved": "seal move",
    "trimmed": "seal move trim",
    "compacted": "compact",
    "compacted and expired": "compact expire",
    "shuffled and expired": "shuffle expire",
    "all of it": "seal move trim shuffle expire",
}


def change(shop: Shop, steps: str) -> None:
    for step in steps.split():
        if step in ("seal", "move", "compact"):
            getattr(shop, step)(TOPIC)
        else:
            getattr(shop, step)()


@pytest.mark.parametrize("what", CHANGES)
def test_what_happens_between_two_reads_is_not_noticed(tmp_path: Path, what: str) -> None:
    """It happens at every position of a cursor, with and without what it has read ahead."""

    async def body() -> None:
        with Shop(tmp_path) as shop:
            await everywhere(shop)
            cursors = []
            for start in (0, 4, 15, 29, 30, 35, 41, 50, 53, 55):
                for ahead in (0, 3):
                    cursor = await shop.topics.cursor(TOPIC, 0, Start.at(start))
                    if ahead and start < 55:
                        run = await cursor.read(ahead, LOTS)
                        assert run is not None
                        assert numbers([run])[0] == start
                    cursors.append(cursor)
            change(shop, CHANGES[what])
            for cursor in cursors:
                at = cursor.position
                assert await read_all(cursor, 4) == list(range(at, 55)), at

    asyncio.run(body())


@pytest.mark.parametrize(("piece_bytes", "most_open"), [(4 << 20, 4), (400, 1)])
def test_files_in_any_order_and_of_many_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, most_open: int
) -> None:
    monkeypatch.setattr(data_file, "CHUNK_BYTES", piece_bytes)
    monkeypatch.setattr(table_runs, "MOST_OPEN", most_open)

    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC, 3)
            at = [0, 0, 0]
            for count, partition in ((5, 0), (30, 1), (7, 0), (3, 2), (20, 0), (9, 1), (11, 2)):
                at[partition] = await shop.segments(count, partition=partition, start=at[partition])
                shop.move(TOPIC)
            for partition in range(3):
                await shop.segments(1, partition=partition, start=at[partition])
                assert shop.trim(partition, needed_from=at[partition]) == at[partition]
            for step in ("as moved", "compacted", "shuffled", "some files more"):
                if step == "compacted":
                    shop.compact(TOPIC)
                if step == "shuffled":
                    shop.shuffle()
                if step == "some files more":
                    for partition in range(3):
                        at[partition] = await shop.segments(3, 3, partition=partition, start=at[partition] + 1) - 1
                        shop.move(TOPIC)
                        assert shop.trim(partition, needed_from=at[partition] - 2) == at[partition] - 2
                for partition in range(3):
                    cursor = await shop.topics.cursor(TOPIC, partition)
                    assert await read_all(cursor, 4) == list(range(at[partition] + 1)), step
                    cursor.seek(3)
                    assert await read_all(cursor) == list(range(3, at[partition] + 1)), step

    asyncio.run(body())


def test_what_retention_took_is_told_with_the_first_that_is_left(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await everywhere(shop)
            cursor = await shop.topics.cursor(TOPIC, 0, Start.at(0))
            shop.retain(12)
            for _ in range(2):
                with pytest.raises(
                    OffsetGone, match=r"shop\.orders/0: the messages from offset 0 on are gone"
                ) as gone:
                    await cursor.read(5, LOTS)
                assert gone.value.first_left == 12
                assert cursor.position == 0, "it stays where it is"
            cursor.seek(gone.value.first_left)
            assert await read_all(cursor) == list(range(12, 55))
            shop.retain(40)
            cursor.seek(12)
            with pytest.raises(OffsetGone) as gone:
                await cursor.read(5, LOTS)
            assert gone.value.first_left == 30, "the log has it still"
            cursor.seek(30)
            assert await read_all(cursor) == list(range(30, 55))

    asyncio.run(body())


@pytest.mark.parametrize(("condition", "first_left"), [("_offset >= 5 and _offset < 8", 8), ("_offset >= 5", 30)])
def test_what_somebody_deleted_from_the_table_is_told(tmp_path: Path, condition: str, first_left: int) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await everywhere(shop)
            shop.table(TOPIC).delete(f"_log_partition == 0 and {condition}")
            cursor = await shop.topics.cursor(TOPIC, 0)
            with pytest.raises(OffsetGone) as gone:
                await read_all(cursor, 2)
            assert (cursor.position, gone.value.first_left) == (5, first_left)
            cursor.seek(first_left)
            assert await read_all(cursor) == list(range(first_left, 55))

    asyncio.run(body())


def test_without_a_table_what_is_trimmed_is_gone(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            await shop.segments(5, 5)
            assert shop.trim() == 5
            assert (await shop.topics.cursor(TOPIC, 0)).position == 5
            with pytest.raises(OffsetGone) as gone:
                await (await shop.topics.cursor(TOPIC, 0, Start.at(2))).read(1, 1)
            assert gone.value.first_left == 5

    asyncio.run(body())


def test_a_table_that_was_dropped_is_told_by_its_name(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await everywhere(shop)
            hot = await shop.topics.cursor(TOPIC, 0, Start.at(30))
            shop.topics._lake.catalog.drop_table(("shop", "orders"))
            with pytest.raises(TableDropped, match=r"shop\.orders"):
                await (await shop.topics.cursor(TOPIC, 0, Start.at(2))).read(1, 1)
            assert await read_all(hot) == list(range(30, 55)), "the log is enough for this one"

    asyncio.run(body())


def test_a_killed_process_is_followed_from_its_wal(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await everywhere(shop)
            with World(tmp_path) as beside:
                elsewhere = await TopicStorage(beside.log).cursor(TOPIC, 0, Start.at(28))
                assert await read_all(elsewhere, 10) == list(range(28, 55))
                await shop.topics.store(TOPIC, numbered(55, 1), producer=Producer("p", 1))
                assert await elsewhere.wait(20)
                assert await read_all(elsewhere) == [55]
            shop.kill()
        with Shop(tmp_path) as shop:
            cursor = await shop.topics.cursor(TOPIC, 0)
            assert await read_all(cursor) == list(range(56)), "nobody has opened a writer yet"
            await shop.topics.store(TOPIC, numbered(56, 1))
            assert await read_all(cursor) == [56]

    asyncio.run(body())


def test_waiting(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await everywhere(shop)
            for start in (0, 45, 54):
                assert await (await shop.topics.cursor(TOPIC, 0, Start.at(start))).wait(0)
            cursor = await shop.topics.cursor(TOPIC, 0, LATEST)
            assert not await cursor.wait(0.01)
            waiting = asyncio.create_task(cursor.wait(60))
            await asyncio.sleep(0.01)
            await shop.topics.store(TOPIC, numbered(55, 1))
            assert await waiting
            assert await read_all(cursor) == [55]

    asyncio.run(body())


def test_unsealed_messages_of_a_topic_without_a_wal_are_not_read(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path, topics={TOPIC: {"ack": "object", "linger_ms": 3_600_000}}) as shop:
            await shop.topics.create_topic(TOPIC)
            cursor = await shop.topics.cursor(TOPIC, 0)
            storing = asyncio.create_task(shop.topics.store(TOPIC, numbered(0, 3)))
            while not (shop.log.writers and shop.log.writers[0].next_offset):
                await asyncio.sleep(0.001)
            assert await cursor.read(10, LOTS) is None
            assert not await cursor.wait(0.01)
            assert not storing.done()
            await asyncio.to_thread(shop.seal, TOPIC)
            assert (await storing).first == 0
            assert await cursor.wait(20)
            assert await read_all(cursor) == [0, 1, 2]

    asyncio.run(body())


def test_a_lost_wal_is_a_new_epoch_and_readers_are_told(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            await shop.segments(5)
            await shop.topics.store(TOPIC, numbered(5, 3))
            cursor = await shop.topics.cursor(TOPIC, 0)
            assert await read_all(cursor) == list(range(8))
            shop.kill()
        shutil.rmtree(layout.wal_directory(shop.config.data_dir, TOPIC, 0))
        for opened in (False, True):
            with Shop(tmp_path) as shop:
                if opened:
                    await shop.topics.store(TOPIC, numbered(100, 6))
                after = await shop.topics.cursor(TOPIC, 0, Start.at(8))
                after.epoch = cursor.epoch
                error = EpochChanged if opened else OffsetOutOfRange
                with pytest.raises(error):
                    await after.read(1, 1)
                after.seek(5)
                assert await read_all(after) == (list(range(100, 106)) if opened else [])
                shop.kill()

    asyncio.run(body())


def test_a_reader_that_was_cancelled_goes_on_where_it_was(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await everywhere(shop)
            cursor = await shop.topics.cursor(TOPIC, 0, Start.at(0))
            for _ in range(20):
                reading = asyncio.create_task(cursor.read(3, LOTS))
                await asyncio.sleep(0)
                reading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reading
            assert await read_all(cursor, 3) == list(range(55))

    asyncio.run(body())


def test_many_readers_share_few_threads(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            topics = TopicStorage(shop.log, max_concurrent_reads=2)
            await everywhere(shop)
            cursors = await asyncio.gather(*(topics.cursor(TOPIC, 0) for _ in range(30)))
            found = await asyncio.gather(*(read_all(cursor, 8) for cursor in cursors))
            assert all(each == list(range(55)) for each in found)
            assert len(topics._executor._threads) == 2

    asyncio.run(body())


@pytest.mark.parametrize("most", [1, 3, 64])
def test_a_table_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(table_runs, "MOST_FILES", most)

    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC, 2)
            for start in range(0, 40, 4):
                for partition in range(2):
                    await shop.segments(4, start=start, partition=partition)
                    shop.move(TOPIC)
            await shop.segments(1, start=40)
            assert shop.trim(needed_from=40) == 40
            assert await read_all(await shop.topics.cursor(TOPIC, 0), 3) == list(range(41))
            shop.table(TOPIC).delete("_log_partition == 0 and _offset >= 6 and _offset < 30")
            cursor = await shop.topics.cursor(TOPIC, 0)
            with pytest.raises(OffsetGone) as gone:
                await read_all(cursor)
            assert (cursor.position, gone.value.first_left) == (6, 30)
            cursor.seek(30)
            assert await read_all(cursor) == list(range(30, 41))

    asyncio.run(body())


def test_a_segment_of_several_pieces(tmp_path: Path) -> None:
    """The messages are larger than a chunk, in segment and table."""

    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            payloads = [number.to_bytes(4) * 20_000 for number in range(150)]
            for start in range(0, 150, 50):
                await shop.topics.store(TOPIC, [Message(each) for each in payloads[start : start + 50]])
            shop.seal(TOPIC)
            for place in ("segment", "table"):
                if place == "table":
                    shop.move(TOPIC)
                    await shop.segments(1)
                    assert shop.trim(needed_from=150) == 150
                cursor = await shop.topics.cursor(TOPIC, 0)
                found: list[bytes] = []
                while cursor.position < 150 and (run := await cursor.read(150, LOTS)) is not None:
                    assert len(run.batch) < 150, "not all at once"
                    found += run.batch.column("payload").to_pylist()
                assert found == payloads

    asyncio.run(body())
