"""Tests that compaction leaves fewer files with the same rows, and comes to an end."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import Table

from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.commit.offsets import check_not_rolled_back, snapshot_offsets
from frazil.maintain.compaction import SMALL, Compaction, SmallFiles, expected_files, worth_it
from frazil.maintain.operations import run_operation
from frazil.pipeline.txlog.entries import MaintenanceOp
from frazil.pipeline.txlog.log import TransactionLog
from frazil.pipeline.txlog.show import history
from tests.lake.commit.commits import NAME, live_files, make_lake, make_table, read_rows, span
from tests.maintain.support import (
    DAILY,
    DAYS,
    EVENTS,
    SparkFor,
    append_days,
    append_times,
    maintenance_context,
    make_daily,
    move,
)


def own_properties(table: Table) -> dict[str, str]:
    return {key: value for key, value in table.metadata.properties.items() if key.startswith("frazil.")}


@given(st.lists(st.integers(1, 400), min_size=1, max_size=200), st.integers(2, 10))
def test_rounds_of_compaction_end(sizes: list[int], least: int) -> None:
    """Whatever the sizes are, the small files of a partition are soon few, or not worth a rewrite."""
    target = 100
    rounds = 0
    while True:
        small = [size for size in sizes if size < SMALL * target]
        group = SmallFiles((), tuple(small))
        if not worth_it(group, target, least):
            break
        count = group.expected(target)
        assert count <= len(small) / 2
        total = sum(small)
        sizes = [size for size in sizes if size >= SMALL * target]
        sizes += [total // count] * (count - 1) + [total - total // count * (count - 1)]
        rounds += 1
    assert rounds <= 1 + len(sizes).bit_length()


def test_files_that_would_stay_as_they_are_are_left_alone() -> None:
    """Two files of two thirds of the target size would become two files of two thirds again."""
    assert expected_files(130, 100) == 2
    assert not worth_it(SmallFiles((), (65, 65)), 100, 2)
    assert worth_it(SmallFiles((), (20, 20)), 100, 2)
    assert not worth_it(SmallFiles((), (20,) * 4), 100, 5)
    assert worth_it(SmallFiles((), (20,) * 5), 100, 5)


def test_small_files_become_one_and_rows_stay(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    before = move(lake, 8)
    with TransactionLog.open(tmp_path, lake.config.pipeline.txlog) as txlog:
        context = maintenance_context(lake, spark=spark_for(lake.config), txlog=txlog)
        report = run_operation(context, Compaction(CompactionConfig()), EVENTS)
    assert (report.outcome, report.work.before.files, report.work.after.files) == ("done", 8, 1), report.work.note
    assert report.work.before.rows == report.work.after.rows == 80
    after = lake.load(NAME)
    assert len(live_files(after)) == 1
    assert read_rows(lake) == span(0, 0, 80)
    assert own_properties(after) == own_properties(before)
    assert snapshot_offsets(after) == {0: 80}
    check_not_rolled_back(after)
    (entry,) = (told.entry for told in history(tmp_path).entries if isinstance(told.entry, MaintenanceOp))
    assert (entry.op_type, entry.table, entry.topic) == ("compact", "frazil.events", "events")
    assert entry.details["before"]["files"] == 8

    # Nothing is left to do, and Spark is not started to find that out.
    again = run_operation(maintenance_context(lake), Compaction(CompactionConfig()), EVENTS)
    assert again.outcome == "nothing"
    # The mover goes on.
    move(lake, 2)
    assert read_rows(lake) == span(0, 0, 100)


def test_a_dry_run_changes_nothing_and_needs_no_spark(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 6)
    report = run_operation(maintenance_context(lake), Compaction(CompactionConfig()), EVENTS, dry_run=True)
    assert (report.outcome, report.work.before.files, report.work.after.files) == ("would", 6, 1)
    assert lake.load(NAME).metadata_location == table.metadata_location


def test_too_few_files_are_left_alone(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 4)
    assert run_operation(maintenance_context(lake), Compaction(CompactionConfig()), EVENTS).outcome == "nothing"


def test_only_partitions_that_are_worth_it_are_rewritten(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = make_lake(tmp_path)
    make_daily(lake)
    for number in range(6):
        append_days(lake, [20_000, 20_001] if number < 3 else [20_000])
    append_days(lake, [20_002])
    kept = {path for path, file in live_files(lake.load(DAILY)).items() if file.partition[0] != 20_000}
    rows = pl.scan_iceberg(lake.load(DAILY)).select("ts", "id").collect().sort("ts", "id")
    report = run_operation(
        maintenance_context(lake, spark=spark_for(lake.config)), Compaction(CompactionConfig()), DAYS
    )
    assert report.outcome == "done"
    assert (report.work.before.files, report.work.after.files) == (10, 5)
    after = live_files(lake.load(DAILY))
    assert kept <= after.keys()
    assert sorted(file.partition[0] for file in after.values()) == [20_000, 20_001, 20_001, 20_001, 20_002]
    assert pl.scan_iceberg(lake.load(DAILY)).select("ts", "id").collect().sort("ts", "id").equals(rows)


@pytest.mark.parametrize(
    ("partition_by", "expected"),
    [
        (["bucket(2, id)"], 2),
        (["id"], 5),
        (["truncate(2, id)", "hour(ts)"], 3),
        (["void(id)"], 1),
        (["month(ts)"], 1),
    ],
)
def test_every_kind_of_partition_is_found(
    partition_by: list[str], expected: int, tmp_path: Path, spark_for: SparkFor
) -> None:
    """One other partition has two small files, so Spark must be told which partitions to rewrite."""
    lake = make_lake(tmp_path)
    make_daily(lake, partition_by=partition_by)
    for _ in range(5):
        append_days(lake, [20_000])
    before = len(live_files(lake.load(DAILY)))
    assert before == 5 * expected
    for _ in range(2):
        append_times(lake, [None, None])
    report = run_operation(
        maintenance_context(lake, spark=spark_for(lake.config)), Compaction(CompactionConfig()), DAYS
    )
    assert report.outcome == "done"
    # If nulls have no partition of their own, their files are joined with the rest.
    assert len(live_files(lake.load(DAILY))) in {expected, expected + 2}
    assert lake.load(DAILY).scan().to_arrow().num_rows == 29


def test_sorted_tables_are_sorted_anew(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = make_lake(tmp_path)
    make_daily(lake, sort_by=["id desc"])
    for _ in range(5):
        append_days(lake, [20_000])
    run_operation(maintenance_context(lake, spark=spark_for(lake.config)), Compaction(CompactionConfig()), DAYS)
    (path,) = live_files(lake.load(DAILY))
    ids = pl.read_parquet(path.removeprefix("file:"))["id"].to_list()
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 25


def test_a_table_that_is_being_written_to_waits(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    context = maintenance_context(lake, spark=spark_for(lake.config))
    with context.table_locks.acquire(NAME) as ours:
        assert ours
        report = run_operation(
            context.__class__(**{**vars(context), "lock_seconds": 0.1}), Compaction(CompactionConfig()), EVENTS
        )
    assert report.outcome == "later"
    assert "being written" in report.work.note
