from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import EpochChanged, OffsetsAhead, SegmentsGone
from frazil.log.reader import Position
from frazil.log.segments.trim import trim
from frazil.pipeline.move.batch_planner import BatchPlanner, FlushLimits, SegmentSlice, join_slices
from frazil.store.local import LocalStore
from tests.log.support import TOPIC, ManualClock
from tests.pipeline.support import seal


class Planned:
    """A planner over a log that the test fills."""

    def __init__(self, store: LocalStore, folder: Path, starts: dict[int, int] | None = None, **limits: int) -> None:
        self.clock = ManualClock()
        self._store = store
        self._folder = folder
        given = FlushLimits(limits.get("seconds", 10), limits.get("rows", 1000), limits.get("bytes", 1 << 30))
        positions = {partition: Position("", offset) for partition, offset in (starts or {}).items()}
        self.planner = BatchPlanner(store, TOPIC, positions, given, 2, self.clock.monotonic)

    def seal(self, count: int, partition: int = 0) -> None:
        seal(self._store, self._folder, count, partition)

    def end(self, after_seconds: float = 0) -> dict[int, int]:
        self.clock.advance(after_seconds)
        return self.planner.next_end()


def test_a_batch_waits_for_its_interval(local_store: LocalStore, tmp_path: Path) -> None:
    log = Planned(local_store, tmp_path, seconds=10)
    assert log.end() == {}
    log.seal(5)
    assert log.end(6) == {}
    log.seal(5)
    assert log.end(9) == {}
    assert log.end(1) == {0: 10}
    assert log.end(100) == {0: 10}


def test_a_batch_that_is_full_goes_at_once(local_store: LocalStore, tmp_path: Path) -> None:
    log = Planned(local_store, tmp_path, rows=8)
    log.seal(5)
    assert log.end() == {}
    log.seal(5)
    assert log.end() == {0: 8}, "the limit of records holds exactly"
    assert log.end() == {0: 8}, "two are left, and wait"
    assert log.end(10) == {0: 10}


def test_the_size_of_segments_ends_a_batch(local_store: LocalStore, tmp_path: Path) -> None:
    log = Planned(local_store, tmp_path, bytes=1)
    log.seal(5)
    log.seal(5)
    assert [log.end(), log.end(), log.end()] == [{0: 5}, {0: 10}, {0: 10}]


def test_partitions_share_a_batch(local_store: LocalStore, tmp_path: Path) -> None:
    log = Planned(local_store, tmp_path, rows=20)
    for partition in (0, 1):
        for _ in range(3):
            log.seal(5, partition)
    assert log.end() == {0: 10, 1: 10}, "neither goes first"
    assert log.end() == {0: 10, 1: 10}
    assert log.end(10) == {0: 15, 1: 15}


def test_no_partition_waits_for_a_busy_one(local_store: LocalStore, tmp_path: Path) -> None:
    log = Planned(local_store, tmp_path, bytes=1)
    for partition in (0, 1):
        for _ in range(2):
            log.seal(5, partition)
    assert [log.end() for _ in range(4)] == [{0: 5}, {0: 5, 1: 5}, {0: 10, 1: 5}, {0: 10, 1: 10}]


def test_partitions_that_come_later_are_found(local_store: LocalStore, tmp_path: Path) -> None:
    log = Planned(local_store, tmp_path, seconds=1)
    log.seal(5)
    log.end()
    log.seal(3, partition=4)
    log.end(6)
    assert log.end(6) == {0: 5, 4: 3}


def test_a_batch_begins_where_the_table_is(local_store: LocalStore, tmp_path: Path) -> None:
    log = Planned(local_store, tmp_path, {0: 7}, seconds=1)
    log.seal(5)
    log.seal(5)
    log.end()
    assert log.end(2) == {0: 10}
    assert [(each.start, each.end) for each in log.planner.tasks({0: 7}, {0: 10})] == [(7, 10)]


def test_what_is_trimmed_cannot_be_moved(local_store: LocalStore, tmp_path: Path) -> None:
    log = Planned(local_store, tmp_path, {0: 2})
    for _ in range(3):
        log.seal(5)
    trim(local_store, TOPIC, 0, needed_from=10, grace_seconds=0, now_ms=log.clock.now_ms())
    with pytest.raises(SegmentsGone, match="offset 2 was trimmed"):
        log.end()


slices = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 1000)), min_size=1, max_size=30)


@given(slices, st.integers(1, 2000))
def test_tasks_cover_a_run_without_gaps(shape: list[tuple[int, int]], share: int) -> None:
    run, at = [], 0
    for rows, size in shape:
        run.append(SegmentSlice(at, at + rows, size))
        at += rows
    tasks = list(join_slices(run, share))
    assert [start for start, _ in tasks] == [0, *(end for _, end in tasks[:-1])]
    assert tasks[-1][1] == at
    borders = {segment.start for segment in run}
    for start, end in tasks:
        inside = [segment for segment in run if start <= segment.start < end]
        assert start in borders
        assert len(inside) == 1 or sum(segment.bytes for segment in inside) <= share * 1.25


def test_a_log_that_was_replaced_is_noticed_while_it_is_followed(local_store: LocalStore, tmp_path: Path) -> None:
    log = Planned(local_store, tmp_path, seconds=1)
    log.seal(5)
    log.end()
    assert log.end(2) == {0: 5}
    local_store.delete([info.key for info in local_store.list(f"queue/{TOPIC}/00000")])
    shutil.rmtree(tmp_path / "wal")
    for _ in range(3):
        seal(local_store, tmp_path, 4, seed=7)
    with pytest.raises(EpochChanged):
        log.end(10)


def test_a_log_that_got_shorter_is_noticed(local_store: LocalStore, tmp_path: Path) -> None:
    seal(local_store, tmp_path, 5)
    log = Planned(local_store, tmp_path, {0: 9})
    with pytest.raises(OffsetsAhead, match="moved up to offset 9, but the log ends at 5"):
        log.end()
