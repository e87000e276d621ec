"""Tests that compaction leaves fewer files with the same rows, in order, and comes to an end."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.commit.offsets import check_not_rolled_back, current_snapshot, snapshot_offsets
from frazil.lake.pyiceberg_internals import write_deletion
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.metadata_updates import commit_updates
from frazil.maintain.operations import run_operation
from frazil.maintain.rewrite.tasks import rewrite_here
from frazil.pipeline.txlog.entries import MaintenanceOp
from frazil.pipeline.txlog.log import TransactionLog
from frazil.pipeline.txlog.show import history
from tests.lake.commit.commits import NAME, NOW_MS, live_files, make_lake, make_table, read_rows, span
from tests.log.support import ManualClock
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


def here(config: CompactionConfig | None = None) -> Compaction:
    return Compaction(config or CompactionConfig(), rewrite_here)


def test_small_files_become_one_in_sparks_tasks_and_rows_stay(tmp_path: Path, spark_for: SparkFor) -> None:
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
    summary = current_snapshot(after).summary
    assert summary is not None
    assert summary.operation == Operation.REPLACE
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


def test_a_partition_that_closes_is_looked_at_again(tmp_path: Path) -> None:
    """Files of very different sizes wait until no more come, also when nothing else happens to the table."""
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 1, rows=3000)
    move(lake, 4, rows=1)
    clock = ManualClock()
    clock.ms = NOW_MS + 1000
    compaction = here()
    context = maintenance_context(lake, clock=clock)
    assert run_operation(context, compaction, EVENTS).outcome == "nothing"
    clock.ms = NOW_MS + 700_000
    assert run_operation(context, compaction, EVENTS).outcome == "done"
    assert run_operation(context, compaction, EVENTS).outcome == "nothing"
    assert len(live_files(lake.load(NAME))) == 1


def test_only_partitions_that_are_worth_it_are_rewritten(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_daily(lake)
    for number in range(6):
        append_days(lake, [20_000, 20_001] if number < 3 else [20_000])
    append_days(lake, [20_002])
    kept = {path for path, file in live_files(lake.load(DAILY)).items() if file.partition[0] != 20_000}
    rows = pl.scan_iceberg(lake.load(DAILY)).select("ts", "id").collect().sort("ts", "id")
    report = run_operation(maintenance_context(lake), here(), DAYS)
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
def test_every_kind_of_partition_is_merged(partition_by: list[str], expected: int, tmp_path: Path) -> None:
    """One other partition has two small files, which are too few."""
    lake = make_lake(tmp_path)
    make_daily(lake, partition_by=partition_by)
    for _ in range(5):
        append_days(lake, [20_000])
    before = len(live_files(lake.load(DAILY)))
    assert before == 5 * expected
    for _ in range(2):
        append_times(lake, [None, None])
    report = run_operation(maintenance_context(lake), here(), DAYS)
    assert report.outcome == "done", report.work.note
    # If nulls have no partition of their own, their files are joined with the rest.
    assert len(live_files(lake.load(DAILY))) in {expected, expected + 2}
    assert lake.load(DAILY).scan().to_arrow().num_rows == 29


def test_sorted_tables_stay_sorted(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_daily(lake, sort_by=["id desc"])
    for _ in range(5):
        append_days(lake, [20_000])
    assert run_operation(maintenance_context(lake), here(), DAYS).outcome == "done"
    (path,) = live_files(lake.load(DAILY))
    ids = pl.read_parquet(path.removeprefix("file://"))["id"].to_list()
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 25


def test_a_mover_with_the_table_is_no_reason_to_wait(tmp_path: Path) -> None:
    """Neither waits for the other. What the mover commits while files are written stays."""
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    context = maintenance_context(lake)

    def while_moving(*given: object) -> object:
        with context.table_locks.acquire(NAME, 5.0) as free:
            assert free
            move(lake, 1)
        return rewrite_here(*given)  # type: ignore[arg-type]

    with context.table_locks.acquire(NAME) as ours:
        assert ours
        assert run_operation(context, here(), EVENTS, dry_run=True).outcome == "would"
    report = run_operation(context, Compaction(CompactionConfig(), while_moving), EVENTS)  # type: ignore[arg-type]
    assert report.outcome == "done"
    assert read_rows(lake) == span(0, 0, 70)
    assert len(live_files(lake.load(NAME))) == 2


def test_files_that_are_of_no_use_any_more_are_removed(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 6)
    context = maintenance_context(lake)

    def while_one_is_dropped(*given: object) -> object:
        written = rewrite_here(*given)  # type: ignore[arg-type]
        commit_updates(lake, table, write_deletion(table, AlwaysTrue(), list(live_files(table).values())[:1]))
        return written

    report = run_operation(context, Compaction(CompactionConfig(), while_one_is_dropped), EVENTS)  # type: ignore[arg-type]
    assert report.outcome == "later"
    assert "1 of 6 files that it replaces have left the table" in report.work.note
    assert len(read_rows(lake)) == 50
    data = Path(table.metadata.location.removeprefix("file://")) / "data"
    assert len(list(data.rglob("*.parquet"))) == 6


def test_damage_is_told_and_changes_nothing(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_daily(lake)
    for _ in range(6):
        append_days(lake, [20_000])
    path = Path(next(iter(live_files(lake.load(DAILY)))).removeprefix("file://"))
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    report = run_operation(maintenance_context(lake), here(), DAYS)
    assert report.outcome == "failed"
    assert path.name in report.work.note
    assert len(live_files(lake.load(DAILY))) == 6
    assert len(list(path.parent.parent.rglob("*.parquet"))) == 6
