"""The Spark data source of the base table's stream. Its rows are ranges of the log.

So the records themselves never enter the JVM: tasks read them. Spark asks for offsets at every trigger, in a process
beside the driver.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from frazil.config.sections.log import StoreConfig
from frazil.errors import FrazilError
from frazil.lake.commit.ranges import Range
from frazil.log.reader import Position
from frazil.pipeline.move.batch_planner import BatchPlanner, FlushLimits
from frazil.pipeline.spark.settings_file import SettingsFile
from frazil.store import open_store

logger = logging.getLogger(__name__)

FORMAT = "frazil-ranges"
SCHEMA = "partition INT, start BIGINT, end BIGINT, epoch STRING"
BYTES = "bytes"


@dataclass(frozen=True)
class RangeStreamSettings(SettingsFile):
    """The settings of the stream. They are passed in a file."""

    topic: str
    store: StoreConfig
    data_dir: Path
    starts: dict[int, Position]
    limits: FlushLimits
    parallelism: int


@dataclass
class RangePartition(InputPartition):
    range: Range


class RangeSource(DataSource):
    """The data source of `spark.readStream.format(FORMAT).option("settings", file)`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return RangeStream(RangeStreamSettings.load(Path(self.options["settings"])))


class RangeStream(DataSourceStreamReader):
    """Plans the batches of the stream.

    The offsets of the stream are maps from partition (as text, for JSON) to next offset. Their key `bytes` has the
    size of all segments so far, so that the size of a batch is the difference of two of them.
    """

    def __init__(self, settings: RangeStreamSettings) -> None:
        self._start = {str(partition): position.offset for partition, position in sorted(settings.starts.items())}
        self._end = self._start | {BYTES: 0}
        self._settings = settings
        self._planner: BatchPlanner | None = None
        self._failing = False

    def initialOffset(self) -> dict[str, int]:
        return self._start | {BYTES: 0}

    def latestOffset(self) -> dict[str, int]:
        try:
            ends = self._plan().next_end()
            self._end = {str(partition): end for partition, end in sorted(ends.items())} | {BYTES: self._plan().bytes}
            self._failing = False
        except FrazilError as error:
            if not error.retryable:
                raise
            # The next trigger tries again. The pipeline itself also reads the store, and reports the problem in
            # health.
            if not self._failing:
                logger.warning("cannot look for new segments", extra={"reason": str(error)})
            self._failing = True
        return self._end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[RangePartition]:
        return [RangePartition(each) for each in self._plan().tasks(_from_spark(start), _from_spark(end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        moved = partition.range
        columns = [pa.array([value]) for value in (moved.partition, moved.start, moved.end, moved.epoch)]
        columns[0] = columns[0].cast(pa.int32())
        yield pa.RecordBatch.from_arrays(columns, ["partition", "start", "end", "epoch"])

    def _plan(self) -> BatchPlanner:
        if self._planner is None:
            settings = self._settings
            store = open_store(settings.store, settings.data_dir)
            self._planner = BatchPlanner(
                store, settings.topic, settings.starts, settings.limits, settings.parallelism, time.monotonic
            )
        return self._planner

    def __getstate__(self) -> dict[str, Any]:
        """Removes planner and credentials from the copies that Spark sends to tasks, which only call `read`."""
        return {"_start": {}, "_end": {}, "_settings": None, "_planner": None, "_failing": False}


def _from_spark(offsets: dict[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items() if partition != BYTES}
