"""Tests tables of which other engines have deleted rows, by position or by value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent

from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.catalog.lake import Lake
from frazil.lake.catalog.spark import spark_catalog_name
from frazil.lake.commit.offsets import check_not_rolled_back
from frazil.log.schema.columns import OFFSET
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.operations import run_operation
from frazil.maintain.rewrite.tasks import rewrite_here
from frazil.maintain.spark_actions import java_table
from tests.lake.commit.commits import NAME, live_files, make_lake, make_table
from tests.maintain.support import EVENTS, SparkFor, maintenance_context, move

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def delete_by_value(lake: Lake, spark: SparkSession, offset: int) -> None:
    """Commits an equality delete of the row with this offset, as Flink does."""
    table = lake.load(NAME)
    field = table.schema().find_field(OFFSET)
    path = f"{table.metadata.location}/data/by-value.parquet"
    kind = pa.schema([pa.field(OFFSET, pa.int64(), False, {"PARQUET:field_id": str(field.field_id)})])
    with table.io.new_output(path).create() as stream:
        pq.write_table(pa.table({OFFSET: [offset]}, schema=kind), stream)
    there = java_table(spark, lake.config, NAME)
    java: Any = spark._jvm
    ids = spark.sparkContext._gateway.new_array(java.int, 1)  # type: ignore[union-attr]
    ids[0] = field.field_id
    builder = java.org.apache.iceberg.FileMetadata.deleteFileBuilder(there.spec()).ofEqualityDeletes(ids)
    size = len(table.io.new_input(path))
    file = builder.withPath(path).withFormat("PARQUET").withFileSizeInBytes(size).withRecordCount(1).build()
    there.newRowDelta().addDeletes(file).commit()


def test_tables_with_rows_deleted_by_value_are_left_to_spark(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    delete_by_value(lake, spark_for(lake.config), 17)
    left = [at for at in range(60) if at != 17]
    assert offsets_in_spark(lake, spark_for) == left
    dry = run_operation(maintenance_context(lake), Compaction(CompactionConfig()), EVENTS, dry_run=True)
    assert (dry.outcome, "it has equality deletes" in dry.work.note) == ("would", True)
    context = maintenance_context(lake, spark=spark_for(lake.config))
    report = run_operation(context, Compaction(CompactionConfig()), EVENTS)
    assert report.outcome == "done", report.work.note
    assert "it has equality deletes, so Spark's rewrite_data_files compacts it" in report.work.note
    assert report.work.after.files == 1
    assert offsets_in_spark(lake, spark_for) == left
    move(lake, 1)
    check_not_rolled_back(lake.load(NAME))
