"""Tests tables of which other engines have deleted rows by position."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent

from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.catalog.lake import Lake
from frazil.lake.catalog.spark import spark_catalog_name
from frazil.log.schema.columns import OFFSET
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.operations import run_operation
from frazil.maintain.rewrite.tasks import rewrite_here
from tests.lake.commit.commits import NAME, live_files, make_lake, make_table
from tests.maintain.support import EVENTS, SparkFor, maintenance_context, move


def offsets_in_spark(lake: Lake, spark_for: SparkFor) -> list[int]:
    spark = spark_for(lake.config)
    name = ".".join((spark_catalog_name(lake.config), *NAME))
    return sorted(row[0] for row in spark.sql(f"SELECT {OFFSET} FROM {name}").collect())


def test_rows_deleted_by_position_stay_deleted(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    spark = spark_for(lake.config)
    name = ".".join((spark_catalog_name(lake.config), *NAME))
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.sql(f"DELETE FROM {name} WHERE {OFFSET} IN (3, 17, 18, 59)")
    context = maintenance_context(lake)
    left = [at for at in range(60) if at not in (3, 17, 18, 59)]

    def while_more_are_deleted(*given: object) -> object:
        written = rewrite_here(*given)  # type: ignore[arg-type]
        spark.sql(f"DELETE FROM {name} WHERE {OFFSET} = 30")
        return written

    late = run_operation(context, Compaction(CompactionConfig(), while_more_are_deleted), EVENTS)  # type: ignore[arg-type]
    assert late.outcome == "later"
    assert "rows of the files that it replaces were deleted meanwhile" in late.work.note
    left.remove(30)
    assert offsets_in_spark(lake, spark_for) == left
    report = run_operation(context, Compaction(CompactionConfig(), rewrite_here), EVENTS)
    assert report.outcome == "done", report.work.note
    (path,) = (path for path, file in live_files(lake.load(NAME)).items() if file.content == DataFileContent.DATA)
    assert sorted(pq.read_table(path.removeprefix("file://"))[OFFSET].to_pylist()) == left
    assert offsets_in_spark(lake, spark_for) == left
    assert sorted(lake.load(NAME).scan().to_arrow()[OFFSET].to_pylist()) == left
