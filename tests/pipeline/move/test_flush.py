from __future__ import annotations

import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from frazil.errors import EpochChanged, OffsetsAhead, SchemaEvolution, SparkFailed, TableDropped, TableRolledBack
from frazil.lake.commit.offsets import RANGES, TableState, summary_of
from frazil.lake.mapping.misfits import row_from_ipc
from frazil.lake.tables.tables import base_identifier, dead_letter_identifier
from frazil.log.reader import Position
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.pipeline.decisions.topic_decisions import Decision, TopicDecisions
from frazil.pipeline.move.base_table import BaseSink
from frazil.pipeline.move.batch_planner import BatchPlanner, FlushLimits
from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.move.flush import Batch
from tests.lake.support import local_config
from tests.log.support import SCHEMA, TOPIC, Machine, rows, writer
from tests.pipeline.support import broken, expect_once, found_offsets, move_all, pipeline_context, run_here, seal


def filled(context: PipelineContext, *counts: int, partition: int = 0) -> None:
    for count in counts:
        seal(context.store, context.config.data_dir, count, partition)


def offsets_in_table(context: PipelineContext) -> Counter[tuple[int, int]]:
    return found_offsets(context.lake, base_identifier(context.config, TOPIC))


def test_every_record_is_moved_once(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        filled(context, 5, 7, 3)
        filled(context, 4, 6, partition=1)
        move_all(context, batch_rows=6)
        expect_once(offsets_in_table(context), {0: 15, 1: 10})
        move_all(context)
        filled(context, 2)
        move_all(context)
        expect_once(offsets_in_table(context), {0: 17, 1: 10})


def test_several_partitions_go_in_one_commit(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        filled(context, 5)
        filled(context, 4, partition=1)
        move_all(context)
        table = context.lake.load(base_identifier(context.config, TOPIC))
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert summary_of(snapshot)[RANGES] == "[[0,0,5],[1,0,4]]"
        assert len(table.metadata.snapshots) == 2, "the empty one it was born with, and this"


def test_two_movers_at_once_move_each_record_once(tmp_path: Path) -> None:
    config = local_config(tmp_path)
    with pipeline_context(config, 1) as first, pipeline_context(config, 2) as second:
        filled(first, 5)
        move_all(first)
        filled(first, 5)
        move_all(second)
        filled(first, 5)
        move_all(first)
        move_all(second)
        expect_once(offsets_in_table(first), {0: 15})


@pytest.mark.parametrize("by_the_other", [{1: 4}, {1: 6}, {0: 2, 1: 4}, {0: 5}], ids=str)
def test_a_partition_that_another_mover_moved_past_the_batch_is_left_alone(
    tmp_path: Path, by_the_other: dict[int, int]
) -> None:
    with pipeline_context(local_config(tmp_path), 1) as slow, pipeline_context(slow.config, 2) as quick:
        filled(slow, 2, 3)
        filled(slow, 4, partition=1)
        planned = BatchMover(slow)
        filled(slow, 2, partition=1)
        BatchMover(quick, by_the_other).flush()
        planned.flush()
        expect_once(offsets_in_table(slow), {0: 5, 1: max(4, by_the_other.get(1, 0))})
        move_all(quick)
        expect_once(offsets_in_table(slow), {0: 5, 1: 6})


def test_rows_that_the_table_does_not_need_are_never_committed(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        filled(context, 5)
        mover = BatchMover(context)
        with pytest.raises(SparkFailed, match="5 records of partition 0 where the table needs 3"):
            mover.flush({0: 3})
        assert offsets_in_table(context) == Counter()


class BatchMover:
    """A mover that has planned one batch: up to the given offsets, or of everything that is sealed."""

    def __init__(self, context: PipelineContext, ends: dict[int, int] | None = None) -> None:
        self._sink = BaseSink(context, TOPIC)
        starts = self._sink.open()
        positions = {partition: Position("", offset) for partition, offset in starts.items()}
        self._planner = BatchPlanner(
            context.store, TOPIC, positions, FlushLimits(0, 1_000_000, 1 << 40), 2, lambda: 0.0
        )
        planned = self._planner.next_end()
        self._batch = Batch(starts, planned if ends is None else ends)

    def flush(self, told: dict[int, int] | None = None) -> None:
        """Moves the batch. With `told` Spark's tasks get the whole batch though it ends there."""
        batch = self._batch if told is None else Batch(self._batch.starts, told)
        self._sink.flush_with(batch, run_here(self._planner, self._batch))


def dead_letters(context: PipelineContext) -> pa.Table:
    return context.lake.load(dead_letter_identifier(context.config, TOPIC)).scan().to_arrow()


def append(context: PipelineContext, *batches: pa.RecordBatch, seed: int = 0) -> None:
    with closing(writer(context.store, context.config.data_dir, Machine(seed))) as log:
        for batch in batches:
            log.append(batch)
        log.seal_all()


def test_rows_that_do_not_fit_become_dead_letters(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, rows(0, 5), broken(5, 2), rows(7, 3))
        move_all(context)
        letters = dead_letters(context)
        assert letters[OFFSET].to_pylist() == [5, 6]
        assert letters["topic"].to_pylist() == [TOPIC, TOPIC]
        assert letters[PARTITION].to_pylist() == [0, 0]
        assert all("'text'" in error for error in letters["error"].to_pylist())
        assert row_from_ipc(letters["raw"][0].as_py()).column("id").to_pylist() == [5]
        assert offsets_in_table(context) == Counter((0, offset) for offset in (0, 1, 2, 3, 4, 7, 8, 9))
        append(context, rows(10, 2))
        move_all(context)
        append(context, broken(12, 1), rows(13, 1))
        move_all(context)
        assert sorted(dead_letters(context)[OFFSET].to_pylist()) == [5, 6, 12]
        assert len(offsets_in_table(context)) == 11
        assert context.metrics.dead_letters.labels(TOPIC)._value.get() == 3


def test_a_batch_of_dead_letters_alone_moves_the_offset(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, broken(0, 3))
        move_all(context)
        table = context.lake.load(base_identifier(context.config, TOPIC))
        assert TableState.of(table).offsets == {0: 3}
        assert dead_letters(context).num_rows == 3


def test_new_columns_come_before_the_rows_that_have_them(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, rows(0, 3))
        move_all(context)
        wider = rows(3, 2).append_column("note", pa.array(["a", "b"]))
        append(context, wider)
        move_all(context)
        table = context.lake.load(base_identifier(context.config, TOPIC)).scan().to_arrow().sort_by(OFFSET)
        assert table["note"].to_pylist() == [None, None, None, "a", "b"]


def changed_by_hand(context: PipelineContext) -> None:
    """Makes `text` another column of another type, as a person could do."""
    with context.lake.load(base_identifier(context.config, TOPIC)).update_schema(
        allow_incompatible_changes=True
    ) as update:
        update.delete_column("text")
    with context.lake.load(base_identifier(context.config, TOPIC)).update_schema() as update:
        update.add_column("text", LongType())


def test_a_breaking_change_stops_the_topic_until_a_person_decides(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, rows(0, 3))
        move_all(context)
        changed_by_hand(context)
        append(context, rows(3, 2))
        with pytest.raises(SchemaEvolution, match="--accept-schema"):
            move_all(context)
        about = TopicDecisions(context.config, context.lake, context.store, TOPIC)
        (problem,) = about.problems()
        assert isinstance(problem.error, SchemaEvolution)
        about.decide("accept-schema")
        assert about.problems() == []
        move_all(context)
        expect_once(offsets_in_table(context), {0: 5})
        table = context.lake.load(base_identifier(context.config, TOPIC)).scan().to_arrow().sort_by(OFFSET)
        assert table["text"].to_pylist() == [None, None, None, "row 3", "row 4"]


def test_or_rows_that_do_not_fit_are_dead_letters(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, rows(0, 3))
        move_all(context)
        changed_by_hand(context)
        numbers = pa.RecordBatch.from_arrays([pa.array([3, 4]), pa.array(["17", "no number"])], schema=SCHEMA)
        append(context, numbers)
        TopicDecisions(context.config, context.lake, context.store, TOPIC).decide("dead-letter")
        move_all(context)
        assert offsets_in_table(context) == Counter((0, offset) for offset in range(4))
        assert dead_letters(context)[OFFSET].to_pylist() == [4]


@pytest.mark.parametrize(("decision", "left"), [("replay", 6), ("accept", 4)])
def test_a_table_that_was_rolled_back_stops_until_a_person_decides(
    tmp_path: Path, decision: Decision, left: int
) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, rows(0, 2))
        move_all(context)
        earlier = context.lake.load(base_identifier(context.config, TOPIC)).current_snapshot()
        assert earlier is not None
        append(context, rows(2, 2))
        move_all(context)
        table = context.lake.load(base_identifier(context.config, TOPIC))
        table.manage_snapshots().rollback_to_snapshot(earlier.snapshot_id).commit()
        append(context, rows(4, 2))
        with pytest.raises(TableRolledBack, match="rows up to 2, properties say 4"):
            move_all(context)
        TopicDecisions(context.config, context.lake, context.store, TOPIC).decide(decision)
        move_all(context)
        found = offsets_in_table(context)
        assert len(found) == left
        assert set(found.values()) == {1}


def test_offsets_ahead_of_the_log_are_never_guessed_about(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, rows(0, 2), rows(2, 2))
        move_all(context)
        context.store.delete([info.key for info in context.store.list(f"queue/{TOPIC}/00000")])
        with pytest.raises(OffsetsAhead, match="up to offset 4, but the log ends at 0"):
            move_all(context)


def test_another_log_of_the_same_name_is_noticed(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, rows(0, 2))
        move_all(context)
        context.store.delete([info.key for info in context.store.list(f"queue/{TOPIC}/00000")])
        shutil.rmtree(context.config.data_dir / "wal")
        append(context, rows(0, 5), seed=1)
        with pytest.raises(EpochChanged):
            move_all(context)


def test_a_dropped_table_is_made_anew_only_when_told(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, rows(0, 3))
        move_all(context)
        context.lake.catalog.drop_table(base_identifier(context.config, TOPIC))
        with pytest.raises(TableDropped, match="--recreate"):
            move_all(context)
        TopicDecisions(context.config, context.lake, context.store, TOPIC).decide("recreate")
        move_all(context)
        expect_once(offsets_in_table(context), {0: 3})


def test_dead_letters_of_another_log_take_no_row_away(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        append(context, rows(0, 3), broken(3, 1), rows(4, 1))
        move_all(context)
        context.store.delete([info.key for info in context.store.list(f"queue/{TOPIC}/00000")])
        shutil.rmtree(context.config.data_dir / "wal")
        append(context, rows(0, 9), seed=1)
        context.lake.catalog.rename_table(base_identifier(context.config, TOPIC), ("frazil", "old"))
        TopicDecisions(context.config, context.lake, context.store, TOPIC).decide("recreate")
        try:
            move_all(context)
        except EpochChanged:
            return
        expect_once(offsets_in_table(context), {0: 9})


def test_a_row_is_never_in_both_tables_though_a_person_changes_what_fits(tmp_path: Path) -> None:
    config = local_config(tmp_path)
    with pipeline_context(config, 1) as slow, pipeline_context(config, 2) as quick:
        append(slow, rows(0, 3))
        move_all(slow)
        changed_by_hand(slow)
        about = TopicDecisions(config, slow.lake, slow.store, TOPIC)
        about.decide("dead-letter")
        append(slow, rows(3, 2))
        move_all(slow)
        append(slow, rows(5, 2))

        def meanwhile() -> None:
            about.decide("accept-schema")
            move_all(quick)

        move_all(slow, after_writing=meanwhile)
        dead = set(dead_letters(slow)[OFFSET].to_pylist())
        base = Counter(offset for _, offset in offsets_in_table(slow).elements())
        assert dead == {3, 4}
        assert base == Counter([0, 1, 2, 5, 6])


def test_rows_of_a_sorted_table_are_those_of_the_log(tmp_path: Path) -> None:
    """Texts go from segments to files as dictionaries, which differ from segment to segment."""
    layout = {"partition_by": ["service"], "sort_by": ["id desc"]}
    config = local_config(tmp_path, topics={TOPIC: {"table": layout}})
    tags = pa.map_(pa.string(), pa.string())

    def batch(start: int, count: int, **more: str) -> pa.RecordBatch:
        ids = range(start, start + count)
        columns = {
            "service": pa.array([None if i % 7 == 0 else f"service-{i % 3}" for i in ids], pa.string()),
            "tags": pa.array(
                [[("pod", f"pod-{i % 5}"), (f"key-{start}", None)] if i % 4 else None for i in ids], tags
            ),
            **{name: pa.array([value] * count) for name, value in more.items()},
        }
        fields = [*SCHEMA, *(pa.field(name, column.type) for name, column in columns.items())]
        return pa.RecordBatch.from_arrays([*rows(start, count).columns, *columns.values()], schema=pa.schema(fields))

    with pipeline_context(config) as context:
        first, second, third, last = batch(0, 20), batch(20, 30), batch(50, 10), batch(61, 9, note="new")
        append(context, first)
        append(context, second)
        move_all(context)
        append(context, third, broken(60, 1), last)
        move_all(context)
        table = context.lake.load(base_identifier(context.config, TOPIC)).scan().to_arrow().sort_by(OFFSET)
        given = [pa.Table.from_batches([each]) for each in (first, second, third, last)]
        expected = pa.concat_tables(given, promote_options="default")
        assert table.select(expected.column_names).to_pylist() == expected.to_pylist()
        assert dead_letters(context)[OFFSET].to_pylist() == [60]
