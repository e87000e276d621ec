"""Reads a batch with `spark.read.format("frazil")`.

It is planned in a process beside the driver, and read in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from frazil.pipeline.datasource.options import SourceOptions
from frazil.pipeline.datasource.spark_types import check_columns, spark_arrow
from frazil.scan.scan_tasks import ScanTask
from frazil.scan.topic_rows import ScanPlan


class PlannedPart(InputPartition):
    """One part of the scan, as it is sent to the task that reads it. It has the credentials it needs."""

    def __init__(self, part: ScanTask, schema: pa.Schema) -> None:
        self.part = part
        self.schema = schema

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.part).__name__})"


def planned(plan: ScanPlan) -> list[InputPartition]:
    schema = spark_arrow(plan.projection.arrow)
    return [PlannedPart(part, schema) for part in plan.tasks]


def read_planned(partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """Runs a task: it reads its part of the scan. If there are no parts, Spark still runs one task, with None."""
    if isinstance(partition, PlannedPart):
        for batch in partition.part.read():
            if len(batch):
                yield batch.cast(partition.schema)


class TopicReader(DataSourceReader):
    """The batch reader. Spark sends it to the tasks, so it holds only what the user wrote."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        return planned(
            options.open().plan(
                options.starts, options.ends, tail=options.tail, columns=partial(check_columns, self._schema)
            )
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_planned(partition)
