"""Retention: old rows go, by files where that is possible, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from frazil.config.model import Config
from frazil.lake.catalog import Lake
from frazil.lake.columns import OFFSET
from frazil.lake.offsets import check_history
from frazil.maintain.operations import perform
from frazil.maintain.report import Report
from frazil.maintain.retention import Retention
from tests.lake.commits import live_files
from tests.log.support import ManualClock
from tests.maintain.support import (
    DAILY,
    DAY_MICROS,
    DAYS,
    SparkFor,
    append_days,
    append_times,
    make_daily,
    make_shop,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TODAY = 20_010


def lake_of(folder: Path, **table: Any) -> Lake:
    table = {"retention_days": 5, "retention_column": "ts", **table}
    return Lake(Config.model_validate({"data_dir": folder, "topics": {"daily": {"table": table}}}))


def drop(lake: Lake, *, spark: SparkSession | None = None, dry_run: bool = False, day: float = TODAY) -> Report:
    clock = ManualClock()
    clock.ms = int(day * 86_400_000)
    return perform(make_shop(lake, spark=spark, clock=clock), Retention(), DAYS, dry_run)


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
    check_history(table)
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
    # One row an hour, over ten days.
    append_times(lake, [(TODAY - 10) * DAY_MICROS + hour * DAY_MICROS // 24 for hour in range(240)])
    append_times(lake, [TODAY * DAY_MICROS, None])
    spark = spark_for(lake.config)
    report = drop(lake, spark=spark)
    assert report.outcome == "done"
    assert offsets(lake) == list(range(120, 242))
    # An hour later two rows are over the limit. They can wait, and nothing is started for them.
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
