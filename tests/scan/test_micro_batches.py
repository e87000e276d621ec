from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.errors import EpochChanged, OffsetOutOfRange, SegmentsGone
from frazil.log.reader import Position
from frazil.scan.micro_batches import BatchLimits, MicroBatchPlanner, Positions
from frazil.scan.offset_ranges import EARLIEST, LATEST, Bound
from frazil.scan.topic_snapshot import Read
from tests.lake.commit.commits import compact, expire
from tests.log.support import ManualClock
from tests.scan.support import Topic, of_parts, span


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Topic]:
    with Topic(tmp_path) as log:
        yield log


class Stream:
    """Asks as Spark does."""

    def __init__(
        self,
        log: Topic,
        read: Read = "both",
        starts: Bound | None = None,
        rows: int | None = None,
        size: int | None = None,
        at: Positions | None = None,
    ) -> None:
        limits = BatchLimits(rows, size)
        self._progress = MicroBatchPlanner(log.rows(read), starts or Bound(EARLIEST), limits, ManualClock())
        if at is None:
            self.at = self._progress.initial()
        else:
            self.at = at
            assert self._progress.plan(at, at) is None

    def batch(self) -> list[tuple[int, int]]:
        end = self._progress.next_end()
        plan = self._progress.plan(self.at, end)
        self.at = end
        return of_parts(plan.tasks) if plan else []

    @property
    def offsets(self) -> dict[int, int]:
        return {partition: position.offset for partition, position in self.at.items()}


def test_only_sealed_rows_are_followed(log: Topic) -> None:
    log.create(0)
    log.seal(5)
    log.append(3)
    stream = Stream(log)
    assert stream.batch() == span(0, 0, 5)
    assert stream.batch() == []
    log.seal()
    assert stream.batch() == span(0, 5, 8)


def test_starts_are_words_or_offsets(log: Topic) -> None:
    log.create(0)
    log.seal(5)
    assert Stream(log, starts=Bound(EARLIEST)).offsets == {0: 0}
    assert Stream(log, starts=Bound(LATEST)).offsets == {0: 5}
    assert Stream(log, starts=Bound(EARLIEST, {0: 3})).offsets == {0: 3}


def test_partitions_appear_by_themselves(log: Topic) -> None:
    log.seal(5)
    stream = Stream(log, starts=Bound(LATEST))
    assert stream.batch() == []
    log.seal(4, partition=3)
    log.seal(1)
    assert stream.batch() == span(0, 5, 6) + span(3, 0, 4)


def test_what_is_trimmed_comes_from_the_table(log: Topic) -> None:
    log.create(0)
    for _ in range(4):
        log.seal(10)
    stream = Stream(log, rows=8)
    assert stream.batch() == span(0, 0, 8)
    log.move(18)
    log.move(35)
    compact(log.lake, log.name)
    expire(log.lake, log.name)
    log.trim(35, delete=True)
    found: list[tuple[int, int]] = []
    while batch := stream.batch():
        assert len(batch) <= 8
        found += batch
    assert found == span(0, 8, 40)
    assert Stream(log).batch() == span(0, 0, 40), "a stream that begins now"


def test_limits_hold_and_no_partition_waits_for_ever(log: Topic) -> None:
    for partition in (0, 1):
        for _ in range(3):
            log.seal(10, partition)
    stream = Stream(log, rows=10)
    batches = [stream.batch() for _ in range(6)]
    assert [len(batch) for batch in batches] == [10] * 6
    assert {batch[0][0] for batch in batches[:2]} == {0, 1}
    assert sorted(each for batch in batches for each in batch) == span(0, 0, 30) + span(1, 0, 30)
    assert stream.batch() == []
    small = Stream(log, size=1)
    assert [len(small.batch()) for _ in range(2)] == [10, 10], "a segment at least"


def test_a_stream_goes_on_where_it_was(log: Topic) -> None:
    for _ in range(3):
        log.seal(10)
    first = Stream(log, rows=10)
    assert first.batch() == span(0, 0, 10)
    again = Stream(log, rows=10, at=first.at)
    assert again.batch() == span(0, 10, 20)
    assert again.batch() == span(0, 20, 30)


def test_the_table_alone_can_be_followed(log: Topic) -> None:
    log.create(0)
    log.seal(10)
    log.move(4)
    stream = Stream(log, "table")
    assert stream.batch() == span(0, 0, 4)
    assert stream.batch() == []
    log.move(9)
    assert stream.batch() == span(0, 4, 9)


def test_the_log_alone_can_be_followed_while_it_has_the_records(log: Topic) -> None:
    log.create(0)
    for _ in range(3):
        log.seal(10)
    stream = Stream(log, "log", rows=5)
    assert stream.batch() == span(0, 0, 5)
    log.move(20)
    log.trim(20, delete=True)
    with pytest.raises(SegmentsGone, match="offset 5 was trimmed from the log, which starts at 20 now"):
        stream.batch()


def test_a_log_that_took_records_back_is_noticed(log: Topic) -> None:
    log.seal(10)
    (epoch, _) = Stream(log, starts=Bound(LATEST)).at[0]
    behind = Stream(log, at={0: Position(epoch, 12)})
    with pytest.raises(OffsetOutOfRange, match="the stream is at offset 12, but the log ends at 10"):
        behind.batch()
    other = Stream(log, at={0: Position("another", 4)})
    with pytest.raises(EpochChanged, match="orders/0: epoch another is unknown"):
        other.batch()


def test_a_log_that_is_gone_is_noticed(log: Topic) -> None:
    log.seal(10)
    stream = Stream(log)
    assert stream.batch() == span(0, 0, 10)
    shutil.rmtree(log.config.data_dir / "store" / "queue" / "orders" / "00000")
    with pytest.raises(OffsetOutOfRange, match="the stream is at offset 10, but the log ends at 0"):
        stream.batch()


def incomplete(log: Topic, offset: int) -> None:
    """Marks the rows below as removed by retention, as far as the table says."""
    log.lake.load(log.name).transaction().set_properties({"frazil.complete-from.0": str(offset)}).commit_transaction()


def test_a_stream_is_told_that_rows_it_never_read_are_gone(log: Topic) -> None:
    log.create(0)
    for _ in range(4):
        log.seal(5)
    stream = Stream(log, rows=5)
    assert stream.batch() == span(0, 0, 5)
    log.move(15)
    incomplete(log, 12)
    assert stream.batch() == span(0, 5, 10), "the log still has them"
    at = stream.at
    log.trim(15)
    with pytest.raises(SegmentsGone, match="from 12 on all are there"):
        stream.batch()
    with pytest.raises(SegmentsGone, match="from 12 on all are there"):
        Stream(log, at=at).batch()
    assert Stream(log, at={0: Position("", 12)}).batch() == span(0, 12, 20)


def test_a_stream_of_all_there_is_begins_where_nothing_is_missing(log: Topic) -> None:
    log.create(0)
    for _ in range(4):
        log.seal(5)
    log.move(15)
    incomplete(log, 12)
    assert Stream(log).batch() == span(0, 0, 20)
    log.trim(15)
    stream = Stream(log)
    assert stream.offsets == {0: 12}
    assert stream.batch() == span(0, 12, 20)
    assert Stream(log, "table").batch() == span(0, 12, 15)


def test_a_partition_that_appears_begins_where_nothing_is_missing(log: Topic) -> None:
    log.create(0)
    log.seal(10)
    log.seal(5)
    log.move(10)
    log.trim(10)
    incomplete(log, 7)
    stream = Stream(log, at={})
    assert stream.batch() == span(0, 7, 15)
