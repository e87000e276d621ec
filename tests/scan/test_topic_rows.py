from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import (
    ConfigError,
    EpochChanged,
    OffsetOutOfRange,
    OffsetsAhead,
    SegmentsGone,
    TableNotFound,
    TableRolledBack,
    TopicNotFound,
)
from frazil.log.topics.schemas import TopicSchemas
from frazil.scan import scan_tasks, topic_rows
from frazil.scan.offset_ranges import EARLIEST, LATEST, Bound
from frazil.scan.scan_tasks import SegmentScanTask, TableScanTask, TailScanTask
from frazil.scan.topic_rows import TopicRows
from tests.examples import examples
from tests.lake.commit.commits import compact, expire, roll_back
from tests.lake.support import TOPIC
from tests.log.support import SCHEMA
from tests.scan.support import Topic, of_parts, offsets, span


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Topic]:
    with Topic(tmp_path) as log:
        yield log


def places(rows: TopicRows) -> list[str]:
    names = {TableScanTask: "table", SegmentScanTask: "segments", TailScanTask: "tail"}
    return [names[type(part)] for part in rows.plan().tasks]


def test_table_segments_and_tail_are_one(log: Topic) -> None:
    log.create(0, 1)
    log.seal(10)
    log.seal(10)
    log.seal(5, partition=1)
    log.move(10)
    log.append(3)
    assert places(log.rows()) == ["table", "segments", "tail", "segments"]
    assert of_parts(log.rows().plan().tasks) == span(0, 0, 23) + span(1, 0, 5)
    assert of_parts(log.rows("table").plan().tasks) == span(0, 0, 10)
    assert of_parts(log.rows("log").plan().tasks) == span(0, 0, 23) + span(1, 0, 5)
    assert of_parts(log.rows().plan(tail=False).tasks) == span(0, 0, 20) + span(1, 0, 5)


def test_a_topic_without_a_table_is_its_log(log: Topic) -> None:
    log.seal(4)
    assert of_parts(log.rows().plan().tasks) == span(0, 0, 4)
    with pytest.raises(TableNotFound, match=r"Topic 'orders' has no table frazil\.orders yet"):
        log.rows("table").plan()


def test_a_topic_that_does_not_exist_is_said_to(log: Topic) -> None:
    for rows in (log.rows("both"), log.rows("log")):
        with pytest.raises(TopicNotFound, match="Topic 'orders' does not exist"):
            rows.schema()


def test_a_part_holds_what_was_there_when_it_was_planned(log: Topic) -> None:
    """The mover commits, files are compacted and the log is marked for trimming between planning and reading."""
    log.create(0)
    for _ in range(3):
        log.seal(10)
    log.move(5)
    log.move(10)
    log.append(4)
    planned = [pickle.loads(pickle.dumps(part)) for part in log.rows().plan().tasks]
    log.seal(2)
    log.seal(1)
    log.move(36)
    compact(log.lake, log.name, count=3)
    log.trim(36)
    assert of_parts(planned) == span(0, 0, 34), "as of planning"
    assert of_parts(log.rows().plan().tasks) == span(0, 0, 37), "as of now"


def test_a_tail_that_is_on_another_machine_is_read_when_it_is_sealed(
    log: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.seal(2)
    log.append(3)
    (*_, tail) = log.rows().plan().tasks
    assert isinstance(tail, TailScanTask)
    url = f"file://{log.config.data_dir.absolute() / 'store'}"
    elsewhere = tail.location.__class__(
        TOPIC, log.config.store.model_copy(update={"url": url}), tmp_path / "elsewhere"
    )
    moved = TailScanTask(elsewhere, tail.projection, tail.partition, tail.offset_range)
    monkeypatch.setattr(scan_tasks, "SEAL_SECONDS", 0.1)
    with pytest.raises(OffsetOutOfRange, match="records 2 to 5 are in a WAL on another machine"):
        list(moved.read())
    log.seal()
    assert offsets(moved.read()) == span(0, 2, 5)


def test_bounds_are_offsets_or_words(log: Topic) -> None:
    log.create(0, 1)
    for partition in (0, 1):
        log.seal(10, partition)
        log.seal(10, partition)
        log.move(10, partition)
    rows = log.rows()

    def read(starts: dict[int, int], ends: dict[int, int]) -> list[tuple[int, int]]:
        return of_parts(rows.plan(Bound(EARLIEST, starts), Bound(LATEST, ends)).tasks)

    assert read({0: 3}, {}) == span(0, 3, 20) + span(1, 0, 20)
    assert read({0: 3, 1: 15}, {0: 12}) == span(0, 3, 12) + span(1, 15, 20)
    assert read({1: EARLIEST}, {0: 0, 1: 4}) == span(1, 0, 4)
    assert read({0: 20, 1: 20}, {}) == []
    with pytest.raises(OffsetOutOfRange, match="orders/0: asked for offsets 21 to 20, but rows end at 20"):
        read({0: 21}, {})
    with pytest.raises(OffsetOutOfRange, match="orders/1: asked for offsets 0 to 21"):
        read({}, {1: 21})
    with pytest.raises(ConfigError, match=r"the end \(3\) is before the start \(5\)"):
        read({0: 5}, {0: 3})
    with pytest.raises(ConfigError, match="has no partition 7; its partitions: 0, 1"):
        read({7: 5}, {})


def test_what_was_trimmed_is_in_the_table(log: Topic) -> None:
    log.create(0)
    for _ in range(3):
        log.seal(10)
    log.move(25)
    log.trim(25, delete=True)
    assert of_parts(log.rows().plan().tasks) == span(0, 0, 30)
    assert offsets(log.rows().read(0)) == span(0, 0, 30)
    assert of_parts(log.rows("log").plan().tasks) == span(0, 20, 30), "the log alone starts where it starts"
    with pytest.raises(SegmentsGone, match="asked for offset 5, but the first that is left is 20"):
        log.rows("log").plan(Bound(EARLIEST, {0: 5}))


def test_rows_that_are_nowhere_are_an_error(log: Topic) -> None:
    log.create(0)
    log.seal(10)
    log.seal(10)
    log.trim(10, delete=True)
    with pytest.raises(SegmentsGone, match="the table has rows up to offset 0, but the log starts at 10"):
        log.rows().plan()


def test_a_table_that_was_not_filled_from_this_log_is_not_joined_with_it(log: Topic) -> None:
    log.create(0)
    log.seal(10)
    log.move(10)
    table = log.lake.load(log.name)
    with table.transaction() as transaction:
        transaction.set_properties({"frazil.epoch.0": "another"})
    with pytest.raises(EpochChanged, match="orders/0: epoch another is unknown"):
        log.rows().plan()
    with table.refresh().transaction() as transaction:
        transaction.set_properties({"frazil.offset.0": "99"})
    with pytest.raises(TableRolledBack, match="rows up to 10, properties say 99"):
        log.rows().plan()
    assert of_parts(log.rows("table").plan().tasks) == span(0, 0, 10)


def test_a_table_that_is_ahead_of_the_log_is_not_joined_with_it(log: Topic, tmp_path: Path) -> None:
    log.create(0)
    log.seal(10)
    log.move(10)
    for path in log.config.data_dir.glob("store/queue/orders/00000/*.parquet"):
        path.unlink()
    with pytest.raises(OffsetsAhead, match="the table has rows up to offset 10, but the log ends at 0"):
        log.rows().plan(tail=False)


def test_a_table_that_was_rolled_back_is_not_joined_with_the_log(log: Topic) -> None:
    log.create(0)
    log.seal(10)
    log.move(5)
    before = log.lake.load(log.name).current_snapshot()
    assert before is not None
    log.move(10)
    roll_back(log.lake, before.snapshot_id, log.name)
    with pytest.raises(TableRolledBack, match="rows up to 5, properties say 10"):
        log.rows().plan()


def test_new_columns_of_the_log_are_null_in_older_rows(log: Topic) -> None:
    log.create(0)
    log.seal(3)
    log.move(3)
    wider = SCHEMA.append(pa.field("price", pa.float64()))
    TopicSchemas(log.store, TOPIC).admit(wider)
    more = [pa.array([3, 4], pa.int64()), pa.array(["a", "b"]), pa.array([1.5, None])]
    log.writer().append(pa.record_batch(more, schema=wider))
    log.seal()
    rows = log.rows()
    assert [field.name for field in rows.schema().fields] == ["id", "text", "_log_partition", "_offset", "price"]
    found = pa.Table.from_batches([batch for part in rows.plan().tasks for batch in part.read()])
    assert found.sort_by("_offset")["price"].to_pylist() == [None, None, None, 1.5, None]
    log.move(5)
    assert log.rows().schema() == rows.schema(), "as the table has it when it follows"
    assert of_parts(log.rows().plan().tasks) == span(0, 0, 5)


def test_columns_can_be_chosen(log: Topic) -> None:
    log.create(0)
    log.seal(3)
    log.move(1)
    plan = log.rows().plan(columns=lambda _: ["_offset", "text"])
    found = pa.Table.from_batches([batch for part in plan.tasks for batch in part.read()]).sort_by("_offset")
    assert found.to_pydict() == {"_offset": [0, 1, 2], "text": ["row 0", "row 1", "row 2"]}


def test_small_files_share_a_part_and_many_large_ones_do_not(log: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create(0)
    for end in (5, 10, 15):
        log.seal(5)
        log.move(end)
    log.seal(5)
    log.seal(5)
    assert places(log.rows()) == ["table", "segments"]
    monkeypatch.setattr(topic_rows, "TASK_BYTES", 1)
    assert places(log.rows()) == ["table"] * 3 + ["segments"] * 2
    assert of_parts(log.rows().plan().tasks) == span(0, 0, 25)


def test_ordered_rows_of_a_table_are_read_a_piece_at_a_time(log: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create(0)
    for end in (40, 80, 100):
        log.seal(end - log.writer().next_offset)
        log.move(end)
    compact(log.lake, log.name, count=2)
    expire(log.lake, log.name)
    log.trim(100, delete=True)
    monkeypatch.setattr(topic_rows, "ORDERED_ROWS", 7)
    assert offsets(log.rows().read(0)) == span(0, 0, 100)
    assert offsets(log.rows().read(0, 13, 95)) == span(0, 13, 95)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], int, int, int, int, int]:
    """Draws sizes of segments, committed and trimmed offsets, rows of the tail, and a range to read."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=0, max_size=5))
    sealed = sum(sizes)
    committed = draw(st.integers(0, sealed))
    trimmed = draw(st.integers(0, committed))
    tail = draw(st.integers(0, 5))
    start, end = sorted(draw(st.tuples(st.integers(0, sealed + tail), st.integers(0, sealed + tail))))
    return sizes, committed, trimmed, tail, start, end


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.booleans())
def test_every_offset_is_read_once_and_in_order(
    history: tuple[list[int], int, int, int, int, int], gone: bool
) -> None:
    sizes, committed, trimmed, tail, start, end = history
    with tempfile.TemporaryDirectory() as folder, Topic(Path(folder)) as log:
        log.create(0)
        log.append(0)
        for size in sizes:
            log.seal(size)
        log.move(committed // 2)
        log.move(committed)
        if sizes:
            log.trim(trimmed, delete=gone)
        log.append(tail)
        rows = log.rows()
        everything = span(0, 0, sum(sizes) + tail)
        assert of_parts(rows.plan().tasks) == everything
        assert of_parts(rows.plan(Bound(EARLIEST, {0: start}), Bound(LATEST, {0: end})).tasks) == span(0, start, end)
        assert offsets(rows.read(0)) == everything
        assert offsets(rows.read(0, start, end)) == span(0, start, end)


def test_what_is_left_can_be_read_but_not_as_an_unbroken_run(log: Topic) -> None:
    log.create(0)
    for _ in range(4):
        log.seal(5)
    log.move(15)
    log.lake.load(log.name).transaction().set_properties({"frazil.complete-from.0": "12"}).commit_transaction()
    assert of_parts(log.rows().plan(Bound(EARLIEST, {0: 3})).tasks) == span(0, 3, 20), "all of it is in the log"
    log.trim(15)
    assert of_parts(log.rows().plan().tasks) == span(0, 0, 20)
    assert of_parts(log.rows().plan(ends=Bound(LATEST, {0: 18})).tasks) == span(0, 0, 18)
    assert offsets(log.rows().read(0)) == span(0, 0, 20)
    assert of_parts(log.rows().plan(Bound(EARLIEST, {0: 12})).tasks) == span(0, 12, 20)
    for read in (lambda: log.rows().plan(Bound(EARLIEST, {0: 11})), lambda: list(log.rows().read(0, 11))):
        with pytest.raises(SegmentsGone, match="from 12 on all are there"):
            read()
