"""Tests lookups of single rows by key and offset, wherever the rows are."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import ConfigError, QueryTimeout, TopicNotFound
from frazil.formats import kafka
from frazil.hot.keys import as_bytes
from frazil.scan.lookup.cold_lookup import ColdLookup
from frazil.scan.tenants import Tenant
from tests.query.support import World, kafka_batch, kafka_record, rows

KEYS = [f"key {number}".encode() for number in range(7)]


class Kafka:
    """Has a topic of two partitions whose offsets have gaps, with rows in table and segments."""

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

    def last(self, key: bytes, below: dict[int, int]) -> list[tuple[int, int]]:
        """Returns partition and offset of the last record of each partition, whatever its time."""
        return sorted(
            {
                each[kafka.PARTITION]: each[kafka.OFFSET]
                for each in self.records
                if each[kafka.KEY] == key
                and self.log_offsets[each[kafka.PARTITION], each[kafka.OFFSET]]
                < below.get(each[kafka.PARTITION], 10**9)
            }.items()
        )


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


def places(found: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(found[kafka.PARTITION].to_pylist(), found[kafka.OFFSET].to_pylist(), strict=True))


@pytest.mark.parametrize("topic", ["raw", "texts", "json"])
def test_the_last_row_of_a_key_is_found_in_each_partition(world: World, topic: str, seed: int) -> None:
    rng = random.Random(seed)
    keys = [json.dumps({"k": number}).encode() for number in range(7)] if topic == "json" else KEYS
    filled = Kafka(world, topic, rng, keys)
    cold = ColdLookup(world.config)
    for key in keys:
        for below in ({}, {0: rng.randrange(200), 1: rng.randrange(200)}, {0: 0}):
            assert places(cold.by_key(topic, key, below)) == filled.last(key, below)
    for unknown in (b"none", b"\xff", b"", b"{}"):
        assert places(cold.by_key(topic, unknown, {})) == []


def test_rows_are_found_by_the_offsets_of_kafka(world: World, seed: int) -> None:
    rng = random.Random(seed)
    filled = Kafka(world, "offsets", rng, KEYS)
    cold = ColdLookup(world.config)
    mine = sorted(each[kafka.OFFSET] for each in filled.records if each[kafka.PARTITION] == 1)
    for offset in [*rng.sample(mine, 5), mine[0] - 1, mine[-1] + 1]:
        assert places(cold.by_offset("offsets", 1, offset, None)) == ([(1, offset)] if offset in mine else [])
    at = mine[120]
    assert places(cold.by_offset("offsets", 1, at, 120)) == []
    assert places(cold.by_offset("offsets", 1, at, 121)) == [(1, at)]
    for start, end, limit, below in (
        (0, None, 1000, None),
        (mine[10], mine[90], 5, None),
        (mine[10], mine[90], 1000, None),
        (mine[190], None, 3, None),
        (0, None, 7, 3),
        (mine[-1] + 1, None, 7, None),
        (mine[50], mine[50], 7, None),
    ):
        found, following = cold.range("offsets", 1, start, end, limit, below)
        visible = mine if below is None else mine[:below]
        wanted = [each for each in visible if start <= each and (end is None or each < end)]
        assert found[kafka.OFFSET].to_pylist() == wanted[:limit]
        assert following == (wanted[limit] if len(wanted) > limit else None)
    assert cold.range("offsets", 9, 0, None, 5, None).rows.num_rows == 0


def test_topics_that_are_not_of_kafka_have_the_offsets_of_the_log(world: World) -> None:
    world.fill("plain", rows(0, 90), moved=30, sealed=60)
    cold = ColdLookup(world.config)
    # Unsealed records are found by whoever has them in memory.
    assert cold.by_offset("plain", 0, 45, None)["id"].to_pylist() == [45]
    assert cold.by_offset("plain", 0, 75, None)["id"].to_pylist() == []
    assert cold.range("plain", 0, 28, None, 4, None).rows["_offset"].to_pylist() == [28, 29, 30, 31]
    assert cold.by_key("plain", b"row 29", {})["id"].to_pylist() == [29]
    assert cold.by_key("plain", b"row 29", {}, Tenant("text", "row 28"))["id"].to_pylist() == []
    world.fill("numbers", rows(0, 9), moved=3, sealed=9)
    assert cold.by_key("numbers", b"5", {})["text"].to_pylist() == ["row 5"]
    assert len(cold.by_key("numbers", b"five", {})) == 0


def test_offsets_may_be_as_large_as_they_get(world: World) -> None:
    largest = 2**63 - 1
    world.append("far", kafka_batch([kafka_record(offset) for offset in (5, largest - 1, largest)]))
    world.seal("far")
    cold = ColdLookup(world.config)
    assert places(cold.by_offset("far", 0, largest, None)) == [(0, largest)]
    assert places(cold.range("far", 0, largest - 5, None, 10, None).rows) == [(0, largest - 1), (0, largest)]
    assert places(cold.range("far", 0, 0, largest, 10, None).rows) == [(0, 5), (0, largest - 1)]


def test_of_two_lives_of_a_topic_the_later_one_counts(world: World) -> None:
    for value, offsets in ((b"first life", (0, 1, 2)), (b"second life", (2, 3))):
        world.append("lives", kafka_batch([kafka_record(offset, value=value) for offset in offsets]))
        world.seal("lives")
        world.move("lives")
    cold = ColdLookup(world.config)
    assert cold.by_offset("lives", 0, 2, None)["value"].to_pylist() == [b"second life"]
    assert cold.by_offset("lives", 0, 2, 3)["value"].to_pylist() == [b"first life"]
    found = cold.range("lives", 0, 0, None, 10, None).rows
    assert found[kafka.OFFSET].to_pylist() == [0, 1, 2, 3]
    assert found["value"].to_pylist() == [b"first life"] * 2 + [b"second life"] * 2


def test_a_range_has_no_more_bytes_than_an_answer_may_have(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.scan.lookup.row_selection.ANSWER_BYTES", 50_000)
    value = b"x" * 20_000
    for part in range(4):
        world.append("large", kafka_batch([kafka_record(part * 3 + i, value=value) for i in range(3)]))
        world.seal("large")
        if part < 2:
            world.move("large")
    cold = ColdLookup(world.config)
    found, following = cold.range("large", 0, 3, None, 1000, None)
    assert (found[kafka.OFFSET].to_pylist(), following) == ([3, 4], 5)
    monkeypatch.setattr("frazil.scan.lookup.row_selection.ANSWER_BYTES", 10)
    found, following = cold.range("large", 0, 3, None, 1000, None)
    assert (found[kafka.OFFSET].to_pylist(), following) == ([3], 4), "a row that is too large is an answer of its own"


def test_a_lookup_gives_up_in_time(world: World) -> None:
    world.fill("slow", rows(0, 9), moved=3, sealed=9)
    with pytest.raises(QueryTimeout, match="longer than 0 seconds"):
        ColdLookup(world.config, seconds=0.0).by_offset("slow", 0, 5, None)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        (pa.array([b"ab", b"\xff\xff"], pa.binary(2)), b"\xff\xff"),
        (pa.array([1, 2], pa.time64("us")), b"00:00:00.000002"),
        (pa.array([1, 2], pa.time32("ms")), b"00:00:00.002"),
        (pa.array([1500, 1501], pa.timestamp("ns")), b"1970-01-01 00:00:00.000001501"),
        (pa.array([-2, -1], pa.timestamp("ns", "UTC")), b"1969-12-31 23:59:59.999999999Z"),
    ],
)
def test_keys_of_all_types_are_found_as_they_are_in_memory(tmp_path: Path, keys: pa.Array, key: bytes) -> None:
    assert as_bytes(keys)[1].as_py() == key
    with World(tmp_path, topics={"t": {"key_column": "key"}}) as world:
        world.fill("t", pa.record_batch({"key": keys, "n": [0, 1]}), moved=2, sealed=2)
        cold = ColdLookup(world.config)
        assert cold.by_key("t", key, {})["n"].to_pylist() == [1]
        for unknown in (b"", b"\xfe\xfe", b"12:00:00", b"2024-01-01 00:00:00"):
            assert cold.by_key("t", unknown, {}).num_rows == 0


def test_rows_without_a_key_are_found_by_none(tmp_path: Path) -> None:
    """Before any row had a key, there is no column for it."""
    with World(tmp_path, topics={"t": {"format": {"key": "json"}}}) as world:
        world.append("t", kafka_batch([kafka_record(0)]))
        world.seal("t")
        cold = ColdLookup(world.config)
        assert cold.by_key("t", b"5", {}).num_rows == 0
        world.append("t", kafka_batch([kafka_record(1, key=b'{"a": 1}')]))
        world.seal("t")
        assert places(cold.by_key("t", b'{"a": 1}', {})) == [(0, 1)]
        assert cold.by_key("t", b"null", {}).num_rows == 0


def test_what_cannot_be_looked_up_is_said(world: World) -> None:
    cold = ColdLookup(world.config)
    with pytest.raises(TopicNotFound):
        cold.by_key("nowhere", b"x", {})
    world.fill("keyless", rows(0, 3), moved=0, sealed=3)
    with pytest.raises(ConfigError, match=r"topics\.keyless\.key_column"):
        cold.by_key("keyless", b"x", {})


def test_files_that_cannot_have_the_row_are_not_read(tmp_path: Path) -> None:
    """The row is still found when all other files are gone."""
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
        assert cold.range("t", 0, 21, 29, 10, None).rows["id"].to_pylist() == list(range(21, 29))
