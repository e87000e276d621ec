"""Tests that a stream of another engine survives compaction: it goes on with new rows and sees none twice."""

from __future__ import annotations

from pathlib import Path

from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.catalog.spark import spark_catalog_name
from frazil.log.schema.columns import OFFSET
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.operations import run_operation
from tests.lake.commit.commits import NAME, make_lake, make_table
from tests.maintain.support import EVENTS, SparkFor, maintenance_context, move


def test_a_stream_of_spark_goes_on(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    spark = spark_for(lake.config)
    table = ".".join((spark_catalog_name(lake.config), *NAME))
    stream = spark.readStream.format("iceberg").load(table)
    query = (
        stream.writeStream.format("memory")
        .queryName("seen")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        context = maintenance_context(lake, spark=spark)
        report = run_operation(context, Compaction(CompactionConfig()), EVENTS)
        assert report.outcome == "done", report.work.note
        move(lake, 1)
        query.processAllAvailable()
        assert query.exception() is None
        offsets = [row[0] for row in spark.sql(f"SELECT {OFFSET} FROM seen").collect()]
    finally:
        query.stop()
    assert sorted(offsets) == list(range(70))
