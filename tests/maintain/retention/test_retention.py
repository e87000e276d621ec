"""Tests that retention removes old rows, as whole files if possible, and no others."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt, attempt_folder, new_attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.complete_offsets import complete_from
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.commit.outcomes import Committed
from frazil.lake.commit.ranges import Range
from frazil.lake.mapping.misfits import Misfits, dead_letter_batch
from frazil.lake.schema.table_schema import base_table_schema, dead_letter_schema, derived_table_schema
from frazil.lake.tables.table_history import add_table
from frazil.lake.tables.tables import Role, create_table
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.operations import run_operation
from frazil.maintain.report import OperationReport
from frazil.maintain.retention.retention import Retention
from frazil.store import open_store
from tests.lake.commit.commits import NOW_MS, live_files, roll_back
from tests.log.support import ManualClock
from tests.maintain.support import (
    DAILY,
    DAILY_SCHEMA,
    DAY_MICROS,
    DAYS,
    SparkFor,
    append_days,
    append_times,
    maintenance_context,
    make_daily,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TODAY = 20_010


def lake_of(folder: Path, derived: dict[str, Any] | None = None, **table: Any) -> Lake:
    table = {"retention_days": 5, "retention_column": "ts", **table}
    topic = {"table": table, "derived": derived or {}}
    return Lake(Config.model_validate({"data_dir": folder, "topics": {"daily": topic}}))


def drop(
    lake: Lake,
    *,
    spark: SparkSession | None = None,
    dry_run: bool = False,
    day: float = TODAY,
    target: MaintainedTable = DAYS,
) -> OperationReport:
    clock = ManualClock()
    clock.ms = int(day * 86_400_000)
    return run_operation(maintenance_context(lake, spark=spark, clock=clock), Retention(), target, dry_run)


def make_beside(lake: Lake, name: str, role: Role, offset: int) -> MaintainedTable:
    """Creates another table of the same topic with this offset."""
    schema = dead_letter_schema() if role == "dead-letter" else derived_table_schema(DAILY_SCHEMA, "")
    identifier = ("frazil", name)
    layout = TableLayoutConfig()
    create_table(lake, identifier, schema, topic="daily", role=role, layout=layout, offsets={0: offset}, epochs={})
    return MaintainedTable(identifier, "daily", role)


def append(lake: Lake, target: MaintainedTable, rows: pa.RecordBatch) -> None:
    """Appends one more file, whatever its offsets."""
    table = lake.load(target.identifier)
    folder = attempt_folder(table.metadata.location, new_attempt(NOW_MS, random.Random()))
    writer = DataFileWriter(table.io, table.metadata, folder, 0)
    writer.write(rows)
    with table.transaction() as change, change.update_snapshot().fast_append() as appending:
        for file in writer.close():
            appending.append_data_file(file)


def go_on(lake: Lake, target: MaintainedTable, offset: int) -> None:
    """Moves a table's offset, as a batch without rows does."""
    table = lake.load(target.identifier)
    state = TableState.of(table)
    moved = Attempt(
        id=new_attempt(NOW_MS, random.Random()),
        ranges=(Range(0, state.offsets[0], offset, ""),),
        files=(),
        table_uuid=state.uuid,
        schema_id=state.schema_id,
        spec_id=state.spec_id,
    )
    assert isinstance(commit_add_files(lake, table, moved, clock=lambda: NOW_MS), Committed)


def offsets(lake: Lake) -> list[int]:
    return pl.scan_iceberg(lake.load(DAILY)).select(OFFSET).collect()[OFFSET].sort().to_list()


def test_old_partitions_are_dropped_without_reading_them(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    make_daily(lake)
    append_days(lake, [TODAY - 8, TODAY - 7, TODAY - 4, TODAY])
    append_days(lake, [TODAY - 7])
    planned = drop(lake, dry_run=True)
    assert (planned.outcome, planned.work.before.files, planned.work.after.files) == ("would", 5, 2)
    report = drop(lake)
    assert (report.outcome, report.work.before.rows, report.work.after.rows) == ("done", 25, 10)
    assert offsets(lake) == list(range(10, 20))
    table = lake.load(DAILY)
    check_not_rolled_back(table)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation.value == "delete"
    assert drop(lake).outcome == "nothing"
    # The mover goes on after it.
    append_days(lake, [TODAY])
    assert offsets(lake) == [*range(10, 20), *range(25, 30)]


def test_a_file_of_old_and_young_rows_is_written_again_once_a_day_at_most(
    tmp_path: Path, spark_for: SparkFor
) -> None:
    lake = lake_of(tmp_path)
    make_daily(lake, partition_by=[])
    # There is one row per hour, over ten days.
    append_times(lake, [(TODAY - 10) * DAY_MICROS + hour * DAY_MICROS // 24 for hour in range(240)])
    append_times(lake, [TODAY * DAY_MICROS, None])
    spark = spark_for(lake.config)
    report = drop(lake, spark=spark)
    assert report.outcome == "done"
    assert offsets(lake) == list(range(120, 242))
    # An hour later two rows are over the limit. They can wait, and Spark is not started for them.
    assert drop(lake, day=TODAY + 1 / 24).outcome == "nothing"
    assert drop(lake, spark=spark, day=TODAY + 0.6).outcome == "done"
    assert offsets(lake)[0] == 120 + 15


def test_rows_without_a_time_stay(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    make_daily(lake)
    append_times(lake, [None, None])
    assert drop(lake).outcome == "nothing"
    assert offsets(lake) == [0, 1]


def test_a_topic_without_a_limit_keeps_all(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, retention_days=None)
    make_daily(lake)
    append_days(lake, [1])
    assert drop(lake).outcome == "nothing"


@pytest.mark.parametrize(("column", "said"), [("age", "no column 'age'"), ("id", "is a long")])
def test_a_column_that_tells_no_age_is_a_clear_failure(tmp_path: Path, column: str, said: str) -> None:
    lake = lake_of(tmp_path, retention_column=column)
    make_daily(lake)
    report = drop(lake)
    assert report.outcome == "failed"
    assert said in report.work.note
    assert "topics.daily.table.retention_column" in report.work.note


def test_somebody_elses_commit_in_between_means_later(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    make_daily(lake)
    append_days(lake, [TODAY - 8, TODAY])
    live = lake.load

    def load_then_commit(identifier: tuple[str, ...]) -> Any:
        table = live(identifier)
        lake.load = live  # type: ignore[method-assign]
        append_days(lake, [TODAY])
        return table

    lake.load = load_then_commit  # type: ignore[method-assign]
    assert drop(lake).outcome == "later"
    assert offsets(lake) == list(range(15))
    assert drop(lake).outcome == "done"
    assert offsets(lake) == list(range(5, 15))
    assert len(live_files(lake.load(DAILY))) == 2


def test_the_oldest_files_beyond_the_size_go(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, retention_days=None, retention_gb=1)
    make_daily(lake)
    append_days(lake, [TODAY - 1, TODAY - 9, TODAY, TODAY - 3])
    append_times(lake, [None])
    sizes = [task.file.file_size_in_bytes for task in lake.load(DAILY).scan().plan_files()]
    assert drop(lake).outcome == "nothing"
    small = lake_of(tmp_path, retention_days=None, retention_gb=(sum(sizes) - max(sizes) * 2 - 1) / 1024**3)
    report = drop(small)
    assert (report.outcome, report.work.after.files) == ("done", 3), report.work.note
    assert "the oldest files beyond" in report.work.note
    assert offsets(lake) == [*range(5), *range(10, 15), 20], "those without a time stay"
    assert complete_from(lake.load(DAILY)) == {0: 20}
    assert drop(small).outcome == "nothing"
    both = lake_of(tmp_path, retention_gb=1, retention_days=0.5)
    assert drop(both).outcome == "done", "what is past one of two limits goes"
    assert offsets(lake) == [*range(10, 15), 20]


def test_rows_wait_for_a_derived_table_whatever_the_size(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, derived=LOUD, retention_days=None, retention_gb=1e-9)
    make_daily(lake)
    append_days(lake, [TODAY - 1, TODAY])
    loud = make_beside(lake, "loud", "derived", 0)
    assert drop(lake).outcome == "skipped"
    go_on(lake, loud, 10)
    assert drop(lake).outcome == "done"
    assert offsets(lake) == list(range(5, 10)), "the newest file has the size alone"


def test_only_messages_have_a_time_that_need_not_be_named(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, retention_column=None)
    make_daily(lake)
    append_days(lake, [1])
    report = drop(lake)
    assert report.outcome == "failed"
    assert "topics.daily.table.retention_days: needs retention_column" in report.work.note


LOUD = {"loud": {"sql": "SELECT id FROM batch"}}


def test_rows_wait_for_a_derived_table_that_has_not_read_them(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, derived=LOUD)
    make_daily(lake)
    append_days(lake, [TODAY - 8, TODAY - 7, TODAY])
    loud = make_beside(lake, "loud", "derived", 0)
    report = drop(lake)
    assert report.outcome == "skipped"
    assert "frazil.loud (at 0 of partition 0, which goes to 15)" in report.work.note
    assert offsets(lake) == list(range(15))
    assert complete_from(lake.load(DAILY)) == {}
    go_on(lake, loud, 7)
    report = drop(lake)
    assert (report.outcome, report.work.after.rows) == ("done", 10)
    assert "1 files with such rows stay" in report.work.note
    assert offsets(lake) == list(range(5, 15))
    assert complete_from(lake.load(DAILY)) == {0: 5}
    go_on(lake, loud, 15)
    assert drop(lake).outcome == "done"
    assert offsets(lake) == list(range(10, 15))
    assert complete_from(lake.load(DAILY)) == {0: 10}


def test_rows_wait_for_a_derived_table_that_was_rolled_back(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, derived=LOUD)
    make_daily(lake)
    append_days(lake, [TODAY - 8, TODAY - 7])
    loud = make_beside(lake, "loud", "derived", 0)
    born = lake.load(loud.identifier).metadata.current_snapshot_id
    assert born is not None
    go_on(lake, loud, 10)
    roll_back(lake, born, loud.identifier)
    report = drop(lake)
    assert report.outcome == "skipped", "it may have to read them again"
    assert "at 0 of partition 0" in report.work.note


def test_rows_wait_for_a_derived_table_that_only_the_log_remembers(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    make_daily(lake)
    append_days(lake, [TODAY - 8])
    loud = make_beside(lake, "loud", "derived", 0)
    assert drop(lake, dry_run=True).outcome == "would", "nobody knows that it is still fed"
    store = open_store(lake.config.store, lake.config.data_dir)
    add_table(store, "daily", loud.identifier, lake.load(loud.identifier), "derived")
    assert drop(lake).outcome == "skipped"
    lake.catalog.drop_table(loud.identifier)
    assert drop(lake).outcome == "done"
    assert offsets(lake) == []


def test_rows_of_a_mixed_file_wait_too(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = lake_of(tmp_path, derived=LOUD)
    make_daily(lake, partition_by=[])
    append_times(lake, [(TODAY - 10) * DAY_MICROS + hour * DAY_MICROS // 24 for hour in range(240)])
    loud = make_beside(lake, "loud", "derived", 0)
    assert drop(lake).outcome == "skipped"
    go_on(lake, loud, 50)
    spark = spark_for(lake.config)
    assert drop(lake, spark=spark).outcome == "done"
    assert offsets(lake) == list(range(50, 240))
    assert complete_from(lake.load(DAILY)) == {0: 50}
    # By its statistics the file may have rows to remove, but it has none.
    append_times(lake, [TODAY * DAY_MICROS])
    assert drop(lake, spark=spark).outcome == "skipped"
    go_on(lake, loud, 241)
    assert drop(lake, spark=spark).outcome == "done"
    assert offsets(lake) == list(range(120, 241))
    assert complete_from(lake.load(DAILY)) == {0: 120}


@pytest.mark.parametrize(("second", "outcome", "marked"), [(6, "done", {0: 72, 1: 6}), (5, "skipped", {})])
def test_a_file_of_several_partitions_is_known_row_by_row(
    tmp_path: Path, second: int, outcome: str, marked: dict[int, int]
) -> None:
    lake = lake_of(tmp_path)
    create_table(
        lake,
        DAILY,
        base_table_schema(DAILY_SCHEMA),
        topic="daily",
        role="base",
        layout=TableLayoutConfig(),
        offsets={0: 100, 1: second},
        epochs={},
    )
    columns = {
        "ts": pa.array([(TODAY - 9) * DAY_MICROS] * 5, pa.timestamp("us", "UTC")),
        "id": pa.array(range(5), pa.int64()),
        PARTITION: pa.array([0, 0, 1, 1, 1], pa.int32()),
        OFFSET: pa.array([70, 71, 3, 4, 5], pa.int64()),
    }
    append(lake, DAYS, pa.RecordBatch.from_pydict(columns))
    assert drop(lake).outcome == outcome
    assert complete_from(lake.load(DAILY)) == marked


def test_dead_letters_go_by_when_they_failed_and_not_before_the_base_table_is_past_them(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    make_daily(lake)
    append_days(lake, [TODAY], rows=2)
    letters = make_beside(lake, "daily__dead_letter", "dead-letter", 4)
    for offset in (1, 3):
        misfit = Misfits.of(pa.record_batch({"id": pa.array([offset])}), pa.array([offset]), {0: "bad"})
        append(lake, letters, dead_letter_batch(misfit, "daily", 0, 1, (TODAY - 9) * 86_400_000))

    def left() -> list[int]:
        found: list[int] = lake.load(letters.identifier).scan().to_arrow()[OFFSET].to_pylist()
        return found

    assert drop(lake, target=letters, day=TODAY - 5).outcome == "nothing"
    report = drop(lake, target=letters)
    assert report.outcome == "done", report.work.note
    assert "frazil.daily (at 2 of partition 0, which goes to 4)" in report.work.note
    assert left() == [3]
    append_days(lake, [TODAY], rows=2)
    assert drop(lake, target=letters).outcome == "done"
    assert left() == []


def test_a_derived_table_has_a_limit_of_its_own(tmp_path: Path) -> None:
    limited = {"sql": "SELECT ts, id FROM batch", "retention_days": 2, "retention_column": "ts"}
    lake = lake_of(tmp_path, derived={"loud": limited}, retention_days=None)
    loud = make_beside(lake, "loud", "derived", 0)
    for day in (TODAY - 3, TODAY):
        moment = pa.array([day * DAY_MICROS], pa.timestamp("us", "UTC"))
        append(lake, loud, pa.record_batch({"ts": moment, "id": pa.array([day])}))
    assert drop(lake, target=loud).outcome == "done"
    assert lake.load(loud.identifier).scan().to_arrow()["id"].to_pylist() == [TODAY]
    assert complete_from(lake.load(loud.identifier)) == {}
