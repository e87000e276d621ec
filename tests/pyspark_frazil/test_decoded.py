"""Tests topics whose records are bytes, in Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lake.kafka_records import TOPIC, put
from tests.lake.support import local_config
from tests.pipeline.support import move_all, pipeline_context
from tests.pyspark_frazil.streams import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_are_read_and_followed_as_their_format_says(spark: SparkSession, tmp_path: Path) -> None:
    settings = {"format": {"value": "json"}}
    file = tmp_path / "frazil.yaml"
    with pipeline_context(local_config(tmp_path, kafka=settings)) as tools:
        folder = tools.config.data_dir
        file.write_text(json.dumps({"data_dir": str(folder), "kafka": settings}))
        put(tools.store, folder, [{"a": 1, "b": {"c": ["x"]}}, b"no", {"a": 2}])
        move_all(tools, TOPIC)
        put(tools.store, folder, [{"a": 3, "d": 0.5}, None])
        options = {"topic": TOPIC, "config": str(file)}
        frame = spark.read.format("frazil").options(**options).load()
        rows = frame.select("_offset", "a", "b.c", "d", "_kafka_tombstone", "_kafka_offset").orderBy("_offset")
        expected = [
            (0, 1, ["x"], None, False, 1000),
            (2, 2, None, None, False, 1004),
            (3, 3, None, 0.5, False, 1006),
            (4, None, None, None, True, 1008),
        ]
        assert [tuple(row) for row in rows.collect()] == expected
        stream = spark.readStream.format("frazil").options(**options).load()
        writer = (
            stream.select("_offset", "a", "b.c", "d", "_kafka_tombstone", "_kafka_offset")
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        started(lambda: writer.start(str(tmp_path / "sink"), "parquet", "append")).awaitTermination()
        followed = spark.read.parquet(str(tmp_path / "sink")).orderBy("_offset").collect()
        assert [tuple(row) for row in followed] == expected
