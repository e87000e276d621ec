"""Tests many readers of the same files: each chunk is read once, and nobody gets messages deleted before it began."""

from __future__ import annotations

import asyncio
import gc
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.config.sections.section import MIB
from frazil.errors import OffsetGone
from frazil.topics.messages import Message, MessageRun
from frazil.topics.read import shared_files as sharing
from frazil.topics.read.cold_reader import ColdReader
from frazil.topics.read.cursor import PartitionCursor
from frazil.topics.read.starts import Start
from tests.topics.support import LOTS, TOPIC, Shop, read_all

LENGTH = 20_000
COUNT = 400


async def filled(shop: Shop, place: str) -> None:
    """Stores 8 MB of messages, in segments or in the table alone."""
    await shop.topics.create_topic(TOPIC)
    for start in range(0, COUNT, 100):
        await shop.topics.store(TOPIC, [Message(str(number).ljust(LENGTH).encode()) for number in _hundred(start)])
        shop.seal(TOPIC)
    if place == "table":
        shop.move(TOPIC)
        await shop.topics.store(TOPIC, [Message(str(COUNT).encode())])
        shop.seal(TOPIC)
        assert shop.trim(needed_from=COUNT) == COUNT


def _hundred(start: int) -> range:
    return range(start, start + 100)


def count_pieces(monkeypatch: pytest.MonkeyPatch) -> list[MessageRun]:
    read: list[MessageRun] = []
    original = ColdReader._next_chunk

    def counted(self: ColdReader) -> MessageRun | None:
        piece = original(self)
        if piece is not None:
            read.append(piece)
        return piece

    monkeypatch.setattr(ColdReader, "_next_chunk", counted)
    return read


@pytest.mark.parametrize("place", ["segments", "table"])
def test_readers_side_by_side_read_files_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await filled(shop, place)
            pieces = count_pieces(monkeypatch)
            cursors = [await shop.topics.cursor(TOPIC, 0, Start.at(0)) for _ in range(30)]
            found = await asyncio.gather(*(read_all(cursor, LOTS, 256 * 1024) for cursor in cursors))
            assert all(each[:COUNT] == list(range(COUNT)) for each in found)
            assert len({piece.first for piece in pieces}) == len(pieces), "the same was read twice"

    asyncio.run(body())


@pytest.mark.parametrize("seed", range(3))
def test_with_little_memory_all_get_everything_wherever_they_are(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    async def body() -> None:
        with Shop(tmp_path, messages={"max_memory_mb": 2}) as shop:
            await filled(shop, rng.choice(["segments", "table"]))
            most = 0

            async def read(start: int) -> None:
                nonlocal most
                cursor = await shop.topics.cursor(TOPIC, 0, Start.at(start))
                at = start
                while at < COUNT:
                    run = await cursor.read(rng.randrange(1, 30), rng.randrange(1, MIB))
                    assert run is not None
                    assert [int(each) for each in run.batch.column("payload").to_pylist()] == list(range(at, run.end))
                    at = run.end
                    most = max(most, shop.topics.shared_bytes)
                    await asyncio.sleep(0)

            await asyncio.gather(*(read(rng.randrange(COUNT)) for _ in range(12)))
            # At least two files are open, and at most one chunk of each is kept beside the share of the memory.
            assert most <= sharing.LEAST_SOURCES * sharing.SOURCE_BYTES + 3 * MIB

    asyncio.run(body())


def test_nothing_is_kept_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "KEPT_SECONDS", 0.1)

    async def body() -> None:
        with Shop(tmp_path) as shop:
            await filled(shop, "segments")
            gc.collect()
            before = pa.total_allocated_bytes()
            await read_all(await shop.topics.cursor(TOPIC, 0, Start.at(0)))
            assert shop.topics.shared_bytes > 4 * MIB
            while shop.topics.shared_bytes:
                await asyncio.sleep(0.01)
            gc.collect()
            assert pa.total_allocated_bytes() - before < MIB

    asyncio.run(body())


def test_what_was_deleted_before_a_reader_began_is_not_shown_to_it(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await filled(shop, "table")
            first = await shop.topics.cursor(TOPIC, 0, Start.at(0))
            assert len(await read_all(first)) == COUNT + 1
            shop.table(TOPIC).delete("_offset >= 100 and _offset < 200")
            other = await shop.topics.cursor(TOPIC, 0, Start.at(0))
            assert (await _end(other), other.position) == (200, 100)

    asyncio.run(body())


async def _end(cursor: PartitionCursor) -> Any:
    with pytest.raises(OffsetGone) as gone:
        await read_all(cursor)
    return gone.value.first_left
