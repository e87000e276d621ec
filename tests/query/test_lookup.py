"""Single rows by key and by offset, found wherever they are."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import ConfigError, TopicNotFound
from frazil.formats import kafka
from frazil.ops.tenants import Tenant
from frazil.query.lookup import ColdLookup
from tests.query.support import World, kafka_batch, kafka_record, rows

KEYS = [f"key {number}".encode() for number in range(7)]


class Kafka:
    """A topic of two partitions whose offsets have gaps, with rows in table and segments."""

    def __init__(self, world: World, topic: str, rng: random.Random, keys: list[bytes]) -> None:
        self.records: list[dict[str, Any]] = []
        self.log_offsets: dict[tuple[int, int], int] = {}
        for partition in (0, 1):
            offset = 100
            for _ in range(200):
                offset += rng.choice([1, 1, 1, 5, 40])
                value = json.dumps({"n": offset}).encode() if rng.random() < 0.9 else None
                self.records.append(kafka_record(offset, partition, rng.choice(keys), value, rng.randrange(1000)))
                self.log_offsets[partition, offset] = len(self.log_offsets) - 200 * partition
        for part in range(4):
            for partition in (0, 1):
                mine = [each for each in self.records if each[kafka.PARTITION] == partition]
                world.append(topic, kafka_batch(mine[part * 50 : part * 50 + 50]), partition)
                world.seal(topic, partition)
            if part < 2:
                world.move(topic)

    def newest(self, key: bytes, below: dict[int, int]) -> dict[str, Any] | None:
        found = [
            each
            for each in self.records
            if each[kafka.KEY] == key
            and self.log_offsets[each[kafka.PARTITION], each[kafka.OFFSET]] < below.get(each[kafka.PARTITION], 10**9)
        ]
        return max(found, key=lambda each: (each[kafka.TIMESTAMP], each[kafka.OFFSET]), default=None)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    json_format = {"value": "json", "key": "json", "columns": {"n": "int64"}}
    topics = {
        "json": {"format": json_format},
        "texts": {"format": {"value": "string", "key": "string"}},
        "plain": {"key_column": "text", "tenant_column": "text"},
        "numbers": {"key_column": "id"},
    }
    with World(tmp_path_factory.mktemp("lookup"), topics=topics) as world:
        yield world


def only(found: pa.Table) -> tuple[int, int] | None:
    assert len(found) <= 1
    rows = found.select([kafka.PARTITION, kafka.OFFSET]).to_pylist()
    return (rows[0][kafka.PARTITION], rows[0][kafka.OFFSET]) if rows else None


def expected(record: dict[str, Any] | None) -> tuple[int, int] | None:
    return (record[kafka.PARTITION], record[kafka.OFFSET]) if record else None


@pytest.mark.parametrize("topic", ["raw", "texts", "json"])
def test_the_newest_row_of_a_key_is_found(world: World, topic: str, seed: int) -> None:
    rng = random.Random(seed)
    keys = [json.dumps({"k": number}).encode() for number in range(7)] if topic == "json" else KEYS
    filled = Kafka(world, topic, rng, keys)
    cold = ColdLookup(world.config)
    for key in keys:
        for below in ({}, {0: rng.randrange(200), 1: rng.randrange(200)}, {0: 0}):
            assert only(cold.by_key(topic, key, below)) == expected(filled.newest(key, below))
    for unknown in (b"none", b"\xff", b"", b"{}"):
        assert only(cold.by_key(topic, unknown, {})) is None


def test_rows_are_found_by_the_offsets_of_kafka(world: World, seed: int) -> None:
    rng = random.Random(seed)
    filled = Kafka(world, "offsets", rng, KEYS)
    cold = ColdLookup(world.config)
    mine = sorted(each[kafka.OFFSET] for each in filled.records if each[kafka.PARTITION] == 1)
    for offset in [*rng.sample(mine, 5), mine[0] - 1, mine[-1] + 1]:
        assert only(cold.by_offset("offsets", 1, offset, None)) == ((1, offset) if offset in mine else None)
    at = mine[120]
    assert only(cold.by_offset("offsets", 1, at, 120)) is None
    assert only(cold.by_offset("offsets", 1, at, 121)) == (1, at)
    for start, end, limit, below in (
        (0, None, 1000, None),
        (mine[10], mine[90], 5, None),
        (mine[10], mine[90], 1000, None),
        (mine[190], None, 3, None),
        (0, None, 7, 3),
        (mine[-1] + 1, None, 7, None),
        (mine[50], mine[50], 7, None),
    ):
        found = cold.range("offsets", 1, start, end, limit, below)[kafka.OFFSET].to_pylist()
        visible = mine if below is None else mine[:below]
        assert found == [each for each in visible if start <= each and (end is None or each < end)][:limit]
    assert len(cold.range("offsets", 9, 0, None, 5, None)) == 0


def test_topics_that_are_not_of_kafka_have_the_offsets_of_the_log(world: World) -> None:
    world.fill("plain", rows(0, 90), moved=30, sealed=60)
    cold = ColdLookup(world.config)
    # What is not sealed is known to whoever has it in memory.
    assert cold.by_offset("plain", 0, 45, None)["id"].to_pylist() == [45]
    assert cold.by_offset("plain", 0, 75, None)["id"].to_pylist() == []
    assert cold.range("plain", 0, 28, None, 4, None)["_offset"].to_pylist() == [28, 29, 30, 31]
    assert cold.by_key("plain", b"row 29", {})["id"].to_pylist() == [29]
    assert cold.by_key("plain", b"row 29", {}, Tenant("text", "row 28"))["id"].to_pylist() == []
    world.fill("numbers", rows(0, 9), moved=3, sealed=9)
    assert cold.by_key("numbers", b"5", {})["text"].to_pylist() == ["row 5"]
    assert len(cold.by_key("numbers", b"five", {})) == 0


def test_what_cannot_be_looked_up_is_said(world: World) -> None:
    cold = ColdLookup(world.config)
    with pytest.raises(TopicNotFound):
        cold.by_key("nowhere", b"x", {})
    world.fill("keyless", rows(0, 3), moved=0, sealed=3)
    with pytest.raises(ConfigError, match=r"topics\.keyless\.key_column"):
        cold.by_key("keyless", b"x", {})


def test_files_that_cannot_have_the_row_are_not_read(tmp_path: Path) -> None:
    """With all other files gone, the row is still found."""
    with World(tmp_path, topics={"t": {"key_column": "id"}}) as world:
        for part in range(4):
            world.append("t", rows(part * 10, 10))
            world.seal("t")
            world.move("t")
        tasks = list(world.table("t").scan().plan_files())
        assert len(tasks) == 4
        kept = next(task for task in world.table("t").scan("id == 25").plan_files())
        for task in tasks:
            if task.file.file_path != kept.file.file_path:
                Path(task.file.file_path.removeprefix("file://")).unlink()
        cold = ColdLookup(world.config)
        assert cold.by_key("t", b"25", {})["id"].to_pylist() == [25]
        assert cold.by_offset("t", 0, 25, None)["id"].to_pylist() == [25]
        assert cold.range("t", 0, 21, 29, 10, None)["id"].to_pylist() == list(range(21, 29))
