"""Reads a stream with `spark.readStream.format("frazil")`. It follows offsets, not snapshots or segments.

A position in Spark's checkpoint is `{"0": {"offset": 123, "epoch": "…"}}`: the next offset of each partition, and the
epoch of the record before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from frazil.log.reader import Position
from frazil.pipeline.datasource.batch import planned, read_planned
from frazil.pipeline.datasource.options import SourceOptions
from frazil.pipeline.datasource.spark_types import check_columns
from frazil.scan.micro_batches import MicroBatchPlanner, Positions


class TopicStream(DataSourceStreamReader):
    """The stream reader.

    One instance plans in a process beside the driver, and copies of another read in the tasks.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._progress: MicroBatchPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:
        return _to_spark(self._follow().initial())

    def latestOffset(self) -> dict[str, Any]:
        return _to_spark(self._follow().next_end())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plans a range of offsets.

        When a stream is restarted, Spark calls it with the empty range at its position.
        """
        plan = self._follow().plan(_from_spark(start), _from_spark(end), partial(check_columns, self._schema))
        return planned(plan) if plan is not None else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_planned(partition)

    def _follow(self) -> MicroBatchPlanner:
        if self._progress is None:
            options = self._options
            self._progress = MicroBatchPlanner(options.open(), options.starts, options.limits)
        return self._progress


def _to_spark(positions: Positions) -> dict[str, Any]:
    return {
        str(partition): {"offset": position.offset, "epoch": position.epoch}
        for partition, position in sorted(positions.items())
    }


def _from_spark(positions: Mapping[str, Any]) -> dict[int, Position]:
    return {int(partition): Position(each["epoch"], each["offset"]) for partition, each in positions.items()}
