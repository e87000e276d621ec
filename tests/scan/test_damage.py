"""Tests that every way to read a damaged file says which file it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

import frazil
from frazil.config.model import Config
from frazil.errors import LogCorrupted, StorageError, TableDamaged
from frazil.query.sql.session import SqlSession
from frazil.scan.lookup.cold_lookup import ColdLookup
from frazil.topics.read.starts import Start
from frazil.web.answers import refused
from frazil.web.failures import kind_of
from frazil.web.grpc.codes import code_of
from tests.lake.checksums.damage import bit_of_column, data_paths, flip
from tests.query.support import World, rows
from tests.topics.support import TIME, TOPIC, Shop, read_all

Asking = Callable[[Config], object]

ASKING: dict[str, Asking] = {
    "arrow": lambda config: frazil.read("orders", config=config).table(),
    "polars": lambda config: frazil.read("orders", config=config).polars(),
    "lazy": lambda config: frazil.read("orders", config=config, columns=["text"]).lazy().collect(),
    "where": lambda config: frazil.read("orders", config=config, where="text = 'row 7'").table(),
    "by key": lambda config: ColdLookup(config).by_key("orders", b"7", {}),
    "by offset": lambda config: ColdLookup(config).by_offset("orders", 0, 7, None),
    "range": lambda config: ColdLookup(config).range("orders", 0, 0, 5, 10, None),
    "sql": lambda config: sql(config, "SELECT count(*) FROM orders WHERE text LIKE '%7%'"),
}


def sql(config: Config, text: str) -> object:
    with SqlSession(config) as session:
        return session.ask(text)


def test_every_way_to_read_a_table_names_a_damaged_file(tmp_path: Path) -> None:
    with World(tmp_path, topics={"orders": {"key_column": "id"}}) as world:
        world.fill("orders", rows(0, 3000), moved=2000, sealed=2500)
        for ask in ASKING.values():
            ask(world.config)
        (path,) = data_paths(world.table("orders"))
        flip(path, bit_of_column(path, "text"))
        name = f"frazil/orders/data/{path.parent.name}/{path.name}"
        for way, ask in ASKING.items():
            with pytest.raises(TableDamaged) as caught:
                ask(world.config)
            assert name in str(caught.value), way
            assert str(tmp_path) not in str(caught.value), "a path of this machine is nobody else's business"
        assert caught.value.exit_code == StorageError.exit_code == 4
        # A query that does not use the damaged column is answered.
        assert frazil.read("orders", config=world.config, columns=["id"]).table().num_rows == 3000


def test_readers_of_a_topic_are_told_which_file_is_damaged(tmp_path: Path) -> None:
    """Another process reads here, because this one keeps for a while what it has read."""

    async def stored() -> Path:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            await shop.segments(500, 500)
            shop.move(TOPIC)
            await shop.segments(20, start=1000)
            assert shop.trim(needed_from=1000) == 1000
            cursor = await shop.topics.cursor(TOPIC, 0, Start.at(0))
            assert await read_all(cursor) == list(range(1020))
            (path,) = data_paths(shop.table(TOPIC))
            return path

    async def all_read() -> None:
        with Shop(tmp_path) as shop:
            await read_all(await shop.topics.cursor(TOPIC, 0, Start.at(0)))

    async def found_by_time() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.cursor(TOPIC, 0, Start.since(TIME + 700))

    path = asyncio.run(stored())
    whole = path.read_bytes()
    for column in ("payload", "publish_time"):
        flip(path, bit_of_column(path, column))
        with pytest.raises(TableDamaged, match=path.name):
            asyncio.run(all_read())
        if column == "publish_time":
            with pytest.raises(TableDamaged, match=path.name):
                asyncio.run(found_by_time())
        path.write_bytes(whole)


def test_a_damaged_segment_is_not_asked_for_times(tmp_path: Path) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            await shop.segments(500)
            assert (await shop.topics.cursor(TOPIC, 0, Start.since(TIME + 70))).position == 70
            (path,) = (tmp_path / "data").rglob("queue/**/*.parquet")
            flip(path, bit_of_column(path, "publish_time"))
            with pytest.raises(LogCorrupted, match=path.name):
                await shop.topics.cursor(TOPIC, 0, Start.since(TIME + 70))

    asyncio.run(body())


def test_no_door_asks_its_clients_to_try_again() -> None:
    error = TableDamaged("Data file a/b/c.parquet of table a.b is damaged")
    answer = refused(error)
    assert answer.status_code == 500
    assert b"c.parquet" in answer.body
    assert "retry-after" not in answer.headers
    assert code_of(kind_of(error)) is grpc.StatusCode.DATA_LOSS
