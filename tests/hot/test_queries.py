"""Tests lookups in memory, segments and table. The answer must not depend on where the record is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import ConfigError, MessageParse, NotBuffered, QueryTooLarge, TopicNotFound
from frazil.formats import kafka
from frazil.hot.queries import HotBuffer
from frazil.scan.lookup.cold_lookup import ColdLookup
from frazil.scan.tenants import Tenant
from frazil.scan.topic_rows import TopicRows
from tests.hot.support import TOPIC, records, until
from tests.query.support import World

MOVED, SEALED, ALL = 30, 60, 80
"""The table, the segments and the tail end at these offsets."""


@pytest.fixture(autouse=True)
def blocks_stay_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests decide block by block what is evicted."""
    monkeypatch.setattr("frazil.hot.feed.HOUSEKEEPING_SECONDS", 3600.0)


@contextmanager
def world_of(folder: Path, **topic: object) -> Iterator[tuple[World, HotBuffer]]:
    settings = {"topics": {TOPIC: {"ack": "object", "linger_ms": 3_600_000, **topic}}}
    with World(folder, **settings) as world:
        yield world, HotBuffer(world.config, world.log, cold=ColdLookup(world.config))


@contextmanager
def started(world: World, hot: HotBuffer, ends: dict[int, int]) -> Iterator[None]:
    with hot:
        partitions = hot.buffer.topic
        until(lambda: {p: buffered.contents.end for p, buffered in partitions(TOPIC).items()} == ends)
        until(lambda: not hot.follower.filling)
        yield


def sealed_in_two(world: World, batch: pa.RecordBatch) -> None:
    """Puts the records that are not in the table into two segments and the tail."""
    for start, end in ((0, MOVED), (MOVED, (MOVED + SEALED) // 2), ((MOVED + SEALED) // 2, SEALED), (SEALED, ALL)):
        world.append(TOPIC, batch.slice(start, end - start))
        if end <= SEALED:
            world.seal(TOPIC)
        if end == MOVED:
            world.move(TOPIC)


def lose(hot: HotBuffer, start: int, partition: int = 0) -> None:
    """Makes the buffer begin at `start`, as if there had been no room for earlier records."""
    buffered = hot.buffer.topic(TOPIC)[partition]
    count = sum(block.end <= start for block in buffered.contents.evictable())
    hot.buffer._drop(buffered, count)
    assert buffered.contents.start == start


@pytest.mark.parametrize(("value_format", "start"), [("raw", 0), ("json", MOVED), ("raw", 45), ("json", SEALED)])
def test_a_key_and_an_offset_are_found_wherever_they_are(
    tmp_path: Path, seed: int, value_format: str, start: int
) -> None:
    rng = random.Random(seed)
    offsets = sorted(rng.sample(range(3 * ALL), ALL))
    keys: list[bytes | None] = [rng.choice([b"a", b"b", b"c", b"rare", None]) if i % 7 else None for i in range(ALL)]
    keys[3] = b"oldest"
    values: list[bytes | None] = [f'{{"n": {i}}}'.encode() if i % 5 else None for i in range(ALL)]
    with world_of(tmp_path, format={"value": value_format}) as (world, hot):
        sealed_in_two(world, records(offsets, keys, values))
        with started(world, hot, {0: ALL}):
            lose(hot, start)
            everything = _cold_rows(world)
            for key in (b"a", b"b", b"c", b"rare", b"oldest", b"nobody"):
                expected = max((i for i, each in enumerate(keys) if each == key), default=None)
                row = hot.query_by_key(TOPIC, key, cold=True)
                _check_same(row, None if expected is None else everything.slice(expected, 1))
            for offset in rng.sample(range(3 * ALL + 2), 20):
                row = hot.query_by_offset(TOPIC, 0, offset, cold=True)
                _check_same(row, everything.slice(offsets.index(offset), 1) if offset in offsets else None)
            for _ in range(5):
                low, high = sorted(rng.sample(range(3 * ALL + 2), 2))
                limit = rng.choice([1, 7, 1000])
                found = hot.query_range(TOPIC, 0, low, high, limit, cold=True)
                wanted = [i for i, offset in enumerate(offsets) if low <= offset < high]
                _check_same(found.rows, everything.take(pa.array(wanted[:limit], pa.int64())))
                assert found.next_offset == (offsets[wanted[limit]] if len(wanted) > limit else None)


def test_what_is_acknowledged_is_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.hot.feed.PAUSE_SECONDS", 1.0)
    with world_of(tmp_path, ack="local", key_column="_kafka_key") as (world, hot), hot:
        for number in range(200):
            key = str(number).encode()
            world.append(TOPIC, records([number], [key], [b"{}"]), partition=number % 3)
            row = hot.query_by_key(TOPIC, key)
            assert row is not None
            assert row["_kafka_offset"].to_pylist() == [number]


def _cold_rows(world: World) -> pa.Table:
    """Returns all rows as a read of table and log has them, including unsealed ones."""

    tails = {writer.partition: writer.view() for writer in world.log.writers}
    plan = TopicRows(world.config, TOPIC, tails=lambda _: tails).plan()
    rows = [pa.Table.from_batches(part.read(), plan.projection.arrow) for part in plan.tasks]
    return pa.concat_tables(rows).sort_by("_offset")


def _check_same(found: pa.Table | None, expected: pa.Table | None) -> None:
    """Checks that the values, the columns and the types are the same."""
    if found is None or expected is None:
        assert found == expected
        return
    assert found.schema.equals(expected.schema)
    assert found.to_pylist() == expected.to_pylist()


def test_among_partitions_the_newest_by_the_time_in_kafka_wins(tmp_path: Path) -> None:
    with world_of(tmp_path) as (world, hot):
        world.append(TOPIC, records([5], [b"k"], times=[2000], partition=0), 0)
        world.append(TOPIC, records([1], [b"k"], times=[3000], partition=1), 1)
        world.append(TOPIC, records([9], [b"k"], times=[1000], partition=2), 2)
        world.append(TOPIC, records([2], [b"t"], times=[7], partition=0), 0)
        world.append(TOPIC, records([8], [b"t"], times=[7], partition=1), 1)
        with started(world, hot, {0: 2, 1: 2, 2: 1}):
            assert _place(hot.query_by_key(TOPIC, "k")) == (1, 1)
            assert _place(hot.query_by_key(TOPIC, "t")) == (1, 8), "at the same time, the higher offset"


def test_in_a_partition_the_last_record_counts_wherever_it_is(tmp_path: Path) -> None:
    """The last record counts whatever time the producer gave it, even without a value."""
    with world_of(tmp_path) as (world, hot):
        keys, values = [b"k", b"gone", b"k", b"gone"], [b"old", b"old", b"new", None]
        world.append(TOPIC, records(range(4), keys, values, times=[2000, 2000, 1000, 1999]))
        world.seal(TOPIC)
        with started(world, hot, {0: 4}):
            in_memory = [_place(hot.query_by_key(TOPIC, key, cold=True)) for key in (b"k", b"gone")]
            lose(hot, 4)
            assert in_memory == [(0, 2), (0, 3)]
            assert [_place(hot.query_by_key(TOPIC, key, cold=True)) for key in (b"k", b"gone")] == in_memory
            world.move(TOPIC)
            assert [_place(hot.query_by_key(TOPIC, key, cold=True)) for key in (b"k", b"gone")] == in_memory


def test_partitions_that_are_not_of_kafka_are_compared_by_offset_wherever_rows_are(tmp_path: Path) -> None:
    with world_of(tmp_path, key_column="k") as (world, hot):
        for partition, count in ((0, 3), (1, 1)):
            world.append(TOPIC, pa.record_batch({"k": ["k"] * count, "n": range(count)}), partition)
            world.seal(TOPIC, partition)
        with started(world, hot, {0: 3, 1: 1}):
            in_memory = hot.query_by_key(TOPIC, "k", cold=True)
            lose(hot, 3, partition=0)
            lose(hot, 1, partition=1)
            _check_same(hot.query_by_key(TOPIC, "k", cold=True), in_memory)
            assert in_memory is not None
            assert in_memory["n"].to_pylist() == [2]


@pytest.mark.parametrize("tenant", [None, Tenant("who", "ann")])
def test_a_newer_row_is_found_though_an_older_one_is_in_memory(tmp_path: Path, tenant: Tenant | None) -> None:
    """A key may have moved to another partition, of which less is in memory."""
    with world_of(tmp_path, format={"value": "json"}, tenant_column="who") as (world, hot):
        for partition, time in ((0, 1000), (1, 2000)):
            value = b'{"who": "ann"}'
            world.append(TOPIC, records([0], [b"k"], [value], times=[time], partition=partition), partition)
            world.append(TOPIC, records([1], [b"x"], [value], times=[time], partition=partition), partition)
            world.seal(TOPIC, partition)
        with started(world, hot, {0: 2, 1: 2}):
            lose(hot, 2, partition=1)
            assert _place(hot.query_by_key(TOPIC, "k", tenant=tenant)) == (0, 0)
            assert _place(hot.query_by_key(TOPIC, "k", cold=True, tenant=tenant)) == (1, 0)
            with pytest.raises(ConfigError, match="raw"):
                hot.query_by_key(TOPIC, "k", cold=True, raw=True, tenant=tenant)


def test_two_lives_of_a_topic_have_one_answer_wherever_rows_are(tmp_path: Path) -> None:
    with world_of(tmp_path) as (world, hot):
        world.append(TOPIC, records([0, 1, 2], values=[b"first"] * 3))
        world.append(TOPIC, records([2, 3], values=[b"second"] * 2))
        world.seal(TOPIC)

        def found() -> list[pa.Table | None]:
            single = [hot.query_by_offset(TOPIC, 0, offset, cold=True) for offset in range(5)]
            return [*single, hot.query_range(TOPIC, 0, 0, cold=True).rows]

        with started(world, hot, {0: 5}):
            in_memory = found()
            lose(hot, 5)
            assert [each and each["value"].to_pylist() for each in in_memory] == [
                [b"first"],
                [b"first"],
                [b"second"],
                [b"second"],
                None,
                [b"first", b"first", b"second", b"second"],
            ]
            for now, before in zip(found(), in_memory, strict=True):
                _check_same(now, before)


@pytest.mark.parametrize("raw", [False, True])
def test_answers_have_no_more_bytes_than_they_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bool
) -> None:
    for name, size in (("STEP_BYTES", 2_500), ("ANSWER_BYTES", 10_000)):
        monkeypatch.setattr(f"frazil.hot.row_collector.{name}", size)
    monkeypatch.setattr("frazil.hot.queries.ANSWER_BYTES", 10_000)
    with world_of(tmp_path) as (world, hot):
        world.append(TOPIC, records(range(50), values=[b"x" * 1000] * 50))
        with started(world, hot, {0: 50}):
            offsets: list[int] = []
            following: int | None = 0
            while following is not None:
                found = hot.query_range(TOPIC, 0, following, raw=raw)
                assert 0 < found.rows.nbytes < 15_000
                offsets += found.rows[kafka.OFFSET].to_pylist()
                following = found.next_offset
            assert offsets == list(range(50))
            newest = hot.query_all(TOPIC, raw=raw).rows
            assert newest.nbytes < 15_000
            assert newest[kafka.OFFSET].to_pylist() == list(range(50 - len(newest), 50))


def test_older_and_newer_rows_together_are_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("hot.row_collector", "hot.queries", "scan.lookup.row_selection"):
        monkeypatch.setattr(f"frazil.{module}.ANSWER_BYTES", 4_600)
    with world_of(tmp_path) as (world, hot):
        for start in (0, 3):
            world.append(TOPIC, records(range(start, start + 3), values=[b"x" * 1000] * 3))
            world.seal(TOPIC)
        with started(world, hot, {0: 6}):
            monkeypatch.setattr("frazil.hot.row_collector.STEP_BYTES", 1)
            lose(hot, 3)
            found = hot.query_range(TOPIC, 0, 0, cold=True)
            assert (found.rows[kafka.OFFSET].to_pylist(), found.next_offset) == ([0, 1, 2, 3, 4], 5)


def test_a_tenant_is_told_when_its_row_was_not_looked_for_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.hot.queries.MOST_SCANNED", 20)
    with world_of(tmp_path, format={"value": "json"}, tenant_column="who") as (world, hot):
        values: list[bytes | None] = [b'{"who": "ann"}', *[b'{"who": "bob"}'] * 29]
        world.append(TOPIC, records(range(30), [b"k"] * 30, values))
        with started(world, hot, {0: 30}):
            assert _place(hot.query_by_key(TOPIC, "k", tenant=Tenant("who", "bob"))) == (0, 29)
            with pytest.raises(QueryTooLarge, match="records with this key are of others than 'ann'"):
                hot.query_by_key(TOPIC, "k", tenant=Tenant("who", "ann"))


def test_a_tenant_may_be_named_in_bytes_beside_others_that_are_no_text(tmp_path: Path) -> None:
    with world_of(tmp_path, tenant_column=kafka.KEY) as (world, hot):
        world.append(TOPIC, records([0, 1], [b"ann", b"\xff"]))
        with started(world, hot, {0: 2}):
            found = hot.query_all(TOPIC, tenant=Tenant(kafka.KEY, "ann")).rows
            assert found[kafka.OFFSET].to_pylist() == [0]


def _place(row: pa.Table | None) -> Sequence[int] | None:
    return None if row is None else (row[kafka.PARTITION][0].as_py(), row[kafka.OFFSET][0].as_py())


def test_the_newest_rows_of_all_partitions(tmp_path: Path) -> None:
    with world_of(tmp_path) as (world, hot):
        for partition in (0, 1):
            world.append(TOPIC, records(range(4), partition=partition), partition)
        with started(world, hot, {0: 4, 1: 4}):
            found = hot.query_all(TOPIC, 3).rows
            assert found.num_rows == 3
            places = list(zip(found[kafka.PARTITION].to_pylist(), found[kafka.OFFSET].to_pylist(), strict=True))
            assert places == sorted(places)
            assert set(places) < {(p, o) for p in (0, 1) for o in (1, 2, 3)}
            assert hot.query_all(TOPIC).rows.num_rows == 8
            assert hot.query_all(TOPIC, raw=True).rows.column_names[:2] == [kafka.KEY, kafka.VALUE]


def test_a_row_has_columns_that_the_table_gets_later(tmp_path: Path) -> None:
    """The row also has columns of the table that its record lacks."""
    with world_of(tmp_path, format={"value": "json"}) as (world, hot):
        world.append(TOPIC, records([0], values=[b'{"a": 1, "b": "x"}']))
        world.seal(TOPIC)
        world.move(TOPIC)
        world.append(TOPIC, records([1, 2, 3], values=[b'{"a": 2, "c": true}', b'{"b": "y"}', b'{"a": "?"}']))
        with started(world, hot, {0: 4}):
            rows, undecodable = (found := hot.query_range(TOPIC, 0, 0)).rows, found.undecodable
            shown = rows.select(["a", "b", "c"]).to_pylist()
            assert shown == [
                {"a": 1, "b": "x", "c": None},
                {"a": 2, "b": None, "c": True},
                {"a": None, "b": "y", "c": None},
            ]
            assert [each.offset for each in undecodable] == [3], "it does not fit, and the table will not have it"
            row = hot.query_by_offset(TOPIC, 0, 2)
            assert row is not None
            assert row.schema.equals(rows.schema)
            with pytest.raises(MessageParse, match="partition 0, offset 3 cannot become a row"):
                hot.query_by_offset(TOPIC, 0, 3)


def test_a_catalog_that_is_away_does_not_matter(tmp_path: Path) -> None:
    with world_of(tmp_path, format={"value": "json"}) as (world, _):
        lake = {"properties": {"type": "rest", "uri": "http://127.0.0.1:1"}, "timeout_seconds": 0.2}
        away = type(world.config).model_validate({**world.config.model_dump(), "lake": lake})
        hot = HotBuffer(away, world.log)
        world.append(TOPIC, records([0], values=[b'{"a": 1}']))
        with started(world, hot, {0: 1}):
            row = hot.query_by_key(TOPIC, "k0")
            assert row is not None
            assert row["a"].to_pylist() == [1]


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    with World(tmp_path) as world:
        hot = HotBuffer(world.config, world.log)
        world.append(TOPIC, pa.record_batch([[1]], schema=schema))
        with started(world, hot, {0: 1}):
            with pytest.raises(ConfigError, match="key_column"):
                hot.query_by_key(TOPIC, "1")
            with pytest.raises(TopicNotFound):
                hot.query_by_offset("unknown", 0, 0)
            with pytest.raises(NotBuffered):
                hot.query_range(TOPIC, 5)
            assert hot.query_by_offset(TOPIC, 0, 0) is not None
