"""Appends Parquet files to an Iceberg table in Spark's own way, in the pipeline's session."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from bench.running_pipeline import RunningPipeline
from frazil.config.sections.lake import TableConfig
from frazil.lake.catalog.spark import spark_catalog_name

PROPERTIES = {"write.parquet.compression-codec": "zstd", "write.parquet.compression-level": "3"}


class SparkAppender:
    """Runs `read.parquet → writeTo.append`, a batch at a time, into a table of its own with the same layout."""

    def __init__(self, pipeline: RunningPipeline, name: str, layout: TableConfig) -> None:
        self._pipeline = pipeline
        self._table = f"{spark_catalog_name(pipeline.config)}.{pipeline.config.lake.namespace}.{name}"
        self._layout = layout
        self._made = False

    def seconds(self, batches: Sequence[Sequence[Path]]) -> float:
        if not self._made:
            self._make(batches[0][0])
            self._made = True
        spark = self._pipeline.spark
        started = time.perf_counter()
        for batch in batches:
            spark.read.parquet(*map(str, batch)).writeTo(self._table).append()
        return time.perf_counter() - started

    def _make(self, segment: Path) -> None:
        spark = self._pipeline.spark
        writer = spark.read.parquet(str(segment)).limit(0).writeTo(self._table).using("iceberg")
        for name, value in PROPERTIES.items():
            writer = writer.tableProperty(name, value)
        writer.create()
        for field in self._layout.partition_by:
            spark.sql(f"ALTER TABLE {self._table} ADD PARTITION FIELD {field}")
        if self._layout.sort_by:
            spark.sql(f"ALTER TABLE {self._table} WRITE ORDERED BY {', '.join(self._layout.sort_by)}")
        if self._layout.partition_by:
            # Spark's default for such tables is a global sort, which nobody asked for: ours orders each file.
            spark.sql(f"ALTER TABLE {self._table} SET TBLPROPERTIES ('write.distribution-mode' = 'hash')")
