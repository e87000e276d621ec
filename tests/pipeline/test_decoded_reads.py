"""Tests reads of topics whose records are bytes: the rows are the same before, while and after they are moved."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import ConfigError
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.segments.segment import Segment, read_records
from frazil.log.tail import TailView
from frazil.log.writer.writer import PartitionWriter
from frazil.pipeline.move.context import PipelineContext
from frazil.scan import column_survey
from frazil.scan.micro_batches import BatchLimits, MicroBatchPlanner
from frazil.scan.offset_ranges import EARLIEST, Bound
from frazil.scan.predicates.text import parse_where
from frazil.scan.scan_tasks import MemoryScanTask
from frazil.scan.topic_rows import TopicRows
from frazil.store import ObjectStore
from tests.examples import examples
from tests.lake.kafka_records import TOPIC, door, put, records, texts
from tests.lake.support import local_config
from tests.pipeline.support import move_all, pipeline_context

JSON = {"format": {"value": "json"}}


@pytest.fixture
def context(tmp_path: Path) -> Iterator[PipelineContext]:
    with pipeline_context(local_config(tmp_path, kafka=JSON)) as context:
        yield context


def tails(*writers: PartitionWriter) -> Callable[[str], dict[int, TailView]]:
    return lambda _: {each.partition: each.tail.view() for each in writers}


def rows(context: PipelineContext, **options: Any) -> TopicRows:
    return TopicRows(context.config, TOPIC, lake=context.lake, **options)


def read(source: TopicRows, **options: Any) -> pa.Table:
    """Reads all rows by partition and offset. Each part is read on its own, as if in another process."""
    plan = source.plan(**options)
    parts = [pickle.loads(pickle.dumps(part)) for part in plan.tasks]
    found = pa.Table.from_batches([batch for part in parts for batch in part.read()], plan.projection.arrow)
    return found.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")]) if OFFSET in found.column_names else found


def alike(table: pa.Table) -> list[dict[str, Any]]:
    """Returns rows without regard to the order of columns and to empty values.

    The type of an empty list's items is not known: the table gets a column when there is an item.
    """
    return [_full(row) for row in table.to_pylist()]


def _full(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _full(each) for name, each in sorted(value.items())}
    return {name: each for name, each in inner.items() if each is not None and each != [] and each != {}}


values = st.one_of(
    st.none(),
    st.just(b"{no json"),
    st.fixed_dictionaries(
        {},
        optional={
            "a": st.integers(-(2**63), 2**63 - 1),
            "b": st.text(max_size=5),
            "c": st.fixed_dictionaries(
                {}, optional={"d": st.floats(allow_nan=False, allow_infinity=False, width=32), "e": st.booleans()}
            ),
            "f": st.lists(st.text(max_size=3), max_size=3),
            "_offset": st.booleans(),
        },
    ),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Any]], list[Any], int, int]:
    """Draws segments, the records after them, the segments per batch, and how many are moved before the read."""
    segments = draw(st.lists(st.lists(values, min_size=1, max_size=6), max_size=6))
    tail = draw(st.lists(values, max_size=4))
    return segments, tail, draw(st.integers(3, 20)), draw(st.integers(0, len(segments)))


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_rows_are_the_same_wherever_they_are(history: tuple[list[list[Any]], list[Any], int, int]) -> None:
    segments, tail, batch_rows, moved = history
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        context = stack.enter_context(pipeline_context(local_config(folder, kafka=JSON)))
        log = stack.enter_context(closing(door(context.store, context.config.data_dir)))

        def append(some: list[Any]) -> None:
            log.submit(records(log.next_offset, texts(some)))
            log.seal_all()

        for each in segments[:moved]:
            append(each)
        move_all(context, TOPIC, batch_rows=batch_rows)
        for each in segments[moved:]:
            append(each)
        if tail:
            log.submit(records(log.next_offset, texts(tail)))
        source = rows(context, tails=tails(log))
        hot, sealed = read(source), read(source, tail=False)
        alone = (
            [row for batch in source.read(0) for row in alike(pa.Table.from_batches([batch]))] if hot.num_rows else []
        )
        everything = [value for each in (*segments, tail) for value in each]
        expected = [offset for offset, value in enumerate(everything) if value != b"{no json"]
        assert hot[OFFSET].to_pylist() == expected
        assert alone == alike(hot)
        assert alike(sealed) == [row for row in alike(hot) if row[OFFSET] < len(everything) - len(tail)]
        if tail:
            log.seal_all()
        move_all(context, TOPIC, batch_rows=batch_rows)
        assert alike(read(rows(context, read="table"))) == alike(hot)
        assert alike(read(source)) == alike(hot)


def test_provisional_rows_are_seen_by_those_who_are_given_them(context: PipelineContext) -> None:
    put(context.store, context.config.data_dir, [{"a": 1}])
    with (
        closing(door(context.store, context.config.data_dir)) as log,
        closing(door(context.store, context.config.data_dir, partition=7)) as other,
    ):
        log.submit(records(1, texts([{"a": 2}, {"b": "new"}])))
        other.submit(records(0, texts([{"a": 3}])))
        source = rows(context, tails=tails(log, other))
        (*_, memory) = source.plan().tasks
        assert isinstance(memory, MemoryScanTask)
        assert read(source).select([PARTITION, OFFSET, "a", "b"]).to_pylist() == [
            {PARTITION: 0, OFFSET: 0, "a": 1, "b": None},
            {PARTITION: 0, OFFSET: 1, "a": 2, "b": None},
            {PARTITION: 0, OFFSET: 2, "a": None, "b": "new"},
            {PARTITION: 7, OFFSET: 0, "a": 3, "b": None},
        ]
        assert read(source, starts=Bound(EARLIEST, {0: 2}))[OFFSET].to_pylist() == [2, 0]
        assert read(rows(context))[OFFSET].to_pylist() == [0]
        assert read(source, tail=False)[OFFSET].to_pylist() == [0]
        stream = MicroBatchPlanner(source, Bound(EARLIEST), BatchLimits())
        assert {partition: position.offset for partition, position in stream.next_end().items()} == {0: 1}
        move_all(context, TOPIC)
        assert read(rows(context, read="table"))[OFFSET].to_pylist() == [0]
        # The read was planned before the writer dropped them, and done after.
        held = source.plan().tasks
        log.seal_all()
        assert sum(len(batch) for part in held for batch in part.read()) == 4


def test_what_is_sealed_while_we_look_is_read_once(context: PipelineContext) -> None:
    with closing(door(context.store, context.config.data_dir)) as log:
        log.submit(records(0, texts([{"a": 1}, {"a": 2}])))

        def sealing(_: str) -> dict[int, TailView]:
            view = log.tail.view()
            log.seal_all()
            return {0: view}

        assert read(rows(context, tails=sealing))["a"].to_pylist() == [1, 2]


def test_a_tail_that_somebody_else_went_past_is_not_joined(context: PipelineContext, tmp_path: Path) -> None:
    with closing(door(context.store, context.config.data_dir)) as old:
        old.submit(records(0, texts([{"a": "mine"}, {"a": "mine"}])))
        put(context.store, tmp_path / "elsewhere", [{"a": "theirs"}], seed=1)
        assert read(rows(context, tails=tails(old)))["a"].to_pylist() == ["theirs"]


def test_a_segment_is_surveyed_once(context: PipelineContext, monkeypatch: pytest.MonkeyPatch) -> None:
    put(context.store, context.config.data_dir, [{"a": 1}], [{"b": 1}])
    asked: list[str] = []

    def counted(store: ObjectStore, segment: Segment) -> pa.Table:
        asked.append(segment.key)
        return read_records(store, segment)

    monkeypatch.setattr(column_survey, "read_records", counted)
    assert {"a", "b"} <= set(rows(context).schema().column_names)
    assert len(asked) == 2
    put(context.store, context.config.data_dir, [{"c": 1}])
    assert {"a", "b", "c"} <= set(rows(context).schema().column_names)
    assert len(asked) == 3


CONDITIONS = [
    parse_where("_kafka_key = x'6b31'"),
    parse_where("_offset >= 3 and _offset < 8"),
    parse_where("a > 4"),
    parse_where("a != 4"),
    parse_where("not (a != 4)"),
    parse_where("a in (1, 5, 9)"),
    parse_where("a not in (1, 5, 9)"),
    parse_where("late is null"),
    parse_where("late is not null"),
    parse_where("late = 'x' or a = 1"),
    parse_where("late != 'x'"),
    parse_where("not (late = 'x' or a is null)"),
    parse_where("new = true"),
    parse_where("new != true or a < 2"),
    parse_where("new is null and c.d = 1.5"),
    parse_where("b like 'o%'"),
]


def test_conditions_choose_the_same_rows_everywhere(context: PipelineContext) -> None:
    """`late` is not in the first file of the table, and `new` is not in the table at all."""
    folder = context.config.data_dir
    put(context.store, folder, [{"a": 1, "b": "one"}, {"a": 2}, None, {"a": 4, "c": {"d": 1.5}}])
    move_all(context, TOPIC)
    put(context.store, folder, [{"a": 5, "late": "x"}, {"late": "y"}, {"a": 4, "b": "other"}])
    move_all(context, TOPIC)
    put(context.store, folder, [{"a": 4, "late": "x", "new": True}, {"a": 8}])

    def chosen(source: TopicRows) -> dict[str, list[int]]:
        return {
            str(where): read(source, where=where, columns=lambda _: [PARTITION, OFFSET])[OFFSET].to_pylist()
            for where in CONDITIONS
        }

    with closing(door(context.store, folder)) as log:
        log.submit(records(9, texts([{"a": 9, "new": False, "c": {"d": 1.5}}, None, {"a": 1, "late": "y"}])))
        found = chosen(rows(context, tails=tails(log)))
        log.seal_all()
    assert all(0 < len(offsets) < 12 for offsets in found.values()), found
    move_all(context, TOPIC)
    assert chosen(rows(context, read="table")) == found


def test_a_condition_prunes_files(context: PipelineContext) -> None:
    for start in range(0, 40, 10):
        put(context.store, context.config.data_dir, [{"a": start + n} for n in range(10)])
        move_all(context, TOPIC)
    (part,) = rows(context).plan(where=parse_where("_kafka_offset = 1030"), columns=lambda _: ["a"]).tasks
    assert len(part.files) == 1  # type: ignore[attr-defined]
    assert [batch.to_pydict() for batch in part.read() if len(batch)] == [{"a": [15]}]


def test_a_condition_that_makes_no_sense_is_told(context: PipelineContext) -> None:
    put(context.store, context.config.data_dir, [{"a": 1}])
    for text in ("nowhere = 1", "a = 'text'"):
        with pytest.raises(ConfigError, match=r"cannot be chosen by|no column 'nowhere'"):
            rows(context).plan(where=parse_where(text))
