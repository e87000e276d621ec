"""Tests derived tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from frazil.config.model import Config
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState
from frazil.lake.tables.tables import find_table
from frazil.log.log import Log
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.segments.trim import trim
from frazil.pipeline.move.derived_table import DerivedSink
from frazil.pipeline.move.flush import Batch
from tests.lake.support import local_config
from tests.log.support import TOPIC
from tests.pipeline.pipeline_process import PipelineProcess
from tests.pipeline.processes import QUICK, append, committed
from tests.pipeline.support import expect_once, found_offsets, move_all, pipeline_context, seal

DERIVED = {
    "loud": {"sql": "SELECT id, upper(text) AS loud FROM batch WHERE id % 2 = 0", "backfill": True},
    "later": {"sql": "SELECT * FROM batch"},
    "wrong": {"sql": "SELECT nothing FROM batch"},
}


@pytest.mark.xdist_group("own-jvm")
def test_a_query_makes_a_table_with_offsets_of_its_own(tmp_path: Path) -> None:
    config = local_config(tmp_path, pipeline=QUICK)
    lake = Lake(config)

    def offsets(name: str) -> dict[int, int]:
        table = find_table(lake, ("frazil", name))
        return dict(TableState.of(table).offsets) if table else {}

    with Log(config) as log:
        append(log, "orders", 60)
        append(log, "orders", 40)
        with pipeline_context(config) as context:
            move_all(context, "orders")
        assert committed(config, "orders") == {0: 100}, "moved without queries"
        # The first rows are only in the base table.
        trim(log.store, "orders", 0, needed_from=100, grace_seconds=0, now_ms=log.world.clock.now_ms())
        assert log.reader("orders", 0).bounds().start == 60
        config = local_config(tmp_path, pipeline=QUICK, topics={"orders": {"derived": DERIVED}})
        with PipelineProcess(config) as pipeline:
            pipeline.wait_for(lambda: offsets("loud") == {0: 100}, "filled with what was there")
            pipeline.wait_for(lambda: offsets("later") == {0: 100}, "begun where the base table is")
            append(log, "orders", 50)
            pipeline.wait_for(lambda: offsets("loud") == {0: 150} == offsets("later"), "filled with what came")
            pipeline.wait_for(lambda: committed(config, "orders") == {0: 150}, "moved the base table")
            pipeline.wait_for(lambda: "derived.wrong.sql" in pipeline.health.reason, "told of the wrong query")
            assert "nothing" in pipeline.health.reason
            assert "position 8" in pipeline.health.reason
            assert pipeline.stop() == 0
    loud = lake.load(("frazil", "loud")).scan().to_arrow().sort_by("id").to_pylist()
    assert loud == [{"id": i, "loud": f"ROW {i}"} for i in range(0, 150, 2)]
    later = lake.load(("frazil", "later")).scan().to_arrow().sort_by("id").to_pylist()
    assert [row["id"] for row in later] == list(range(100, 150))
    assert later[0] == {"id": 100, "text": "row 100", "_log_partition": 0, "_offset": 100}


def records(spark: SparkSession, ends: dict[int, int]) -> DataFrame:
    """Returns the data frame of a batch of the log's test records that begins at the first record."""
    rows = [(offset, f"row {offset}", each, offset) for each, end in ends.items() for offset in range(end)]
    return spark.createDataFrame(rows, f"id LONG, text STRING, {PARTITION} INT, {OFFSET} LONG")


@pytest.mark.parametrize("by_the_other", [{1: 4}, {1: 6}, {0: 2, 1: 4}, {0: 5}], ids=str)
def test_a_partition_that_another_mover_moved_past_the_batch_is_left_alone(
    tmp_path: Path, spark_for: Callable[[Config], SparkSession], by_the_other: dict[int, int]
) -> None:
    derived = {"sql": f"SELECT id, {PARTITION}, {OFFSET} FROM batch", "backfill": True}
    config = local_config(tmp_path, topics={TOPIC: {"derived": {"copy": derived}}})
    spark = spark_for(config)
    batch, everything = {0: 5, 1: 4}, {0: 5, 1: 6}
    with pipeline_context(config, 1) as context:
        for partition, end in everything.items():
            seal(context.store, config.data_dir, end, partition)
        sink = DerivedSink(context, spark, TOPIC, "copy")
        starts = sink.open()
        # A mover has planned `batch`, and another one moves part of it, or more than it.
        for ends in (by_the_other, batch):
            sink.flush(Batch(starts, ends), records(spark, ends))
        found = found_offsets(context.lake, ("frazil", "copy"))
    expect_once(found, {0: 5, 1: max(4, by_the_other.get(1, 0))})
