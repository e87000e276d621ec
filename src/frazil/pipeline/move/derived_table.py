"""The sink that fills a derived table with the result of its query. It has offsets of its own.

Rows come from the log, or from the base table if the log does not have them any more.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.commit.ranges import Range
from frazil.lake.evolution import follow_query
from frazil.lake.tables.opening import open_derived_table
from frazil.lake.tables.tables import derived_identifier
from frazil.pipeline.datasource.row_source import FORMAT, RowStreamSettings
from frazil.pipeline.datasource.spark_types import spark_schema
from frazil.pipeline.move import task_reports
from frazil.pipeline.move.batch_planner import FlushLimits
from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.move.derived_query import DerivedQuery, only_needed_rows, write_rows
from frazil.pipeline.move.flush import Batch, flush
from frazil.pipeline.move.flush_attempt import FlushAttempt
from frazil.pipeline.move.tasks import TargetTable
from frazil.scan.consistency import check_against_log
from frazil.scan.topic_rows import TopicRows
from frazil.scan.topic_snapshot import TopicSnapshot


class DerivedSink:
    def __init__(self, context: PipelineContext, spark: SparkSession, topic: str, name: str) -> None:
        self._context = context
        self._spark = spark
        self._topic = topic
        self._name = name
        self._config = context.config.topic(topic).derived[name]
        self._identifier = derived_identifier(context.config, topic, name)
        self._transform = DerivedQuery(self._config.sql, f"topics.{topic}.derived.{name}.sql")
        self._rows = TopicRows(context.config, topic, "both", lake=context.lake)

    @property
    def name(self) -> str:
        return dotted(self._identifier)

    @property
    def trigger_seconds(self) -> float:
        return self._limits.seconds

    @property
    def _limits(self) -> FlushLimits:
        return FlushLimits.of(self._context.config.pipeline, self._context.config.topic(self._topic).pipeline)

    def open(self) -> dict[int, int]:
        look = self._look()
        schema = self._transform.schema(self._spark, spark_schema(look.schema))
        table = self._context.call_catalog(
            lambda: open_derived_table(
                self._context.lake,
                self._context.store,
                self._context.config,
                self._topic,
                self._name,
                schema,
                offsets=self._begin(look),
                epochs={},
            )
        )
        check_not_rolled_back(table)
        self._context.note_opened(self._topic, table)
        check_against_log(TableState.of(table), look.extents)
        table = self._context.call_catalog(lambda: follow_query(self._context.lake, table, schema))
        return dict(TableState.of(table).offsets)

    def _look(self) -> TopicSnapshot:
        return self._context.call_catalog(lambda: self._rows.snapshots.take(tail=False))

    def _begin(self, look: TopicSnapshot) -> dict[int, int]:
        """Returns the first offsets of a new table.

        With `backfill` they are the earliest that exist. Otherwise they are the offsets that the base table is at.
        """
        if self._config.backfill:
            return {partition: self._rows.earliest(look, partition) for partition in look.partitions}
        return {partition: look.offsets.get(partition, look.extent(partition).start) for partition in look.partitions}

    def stream(self, spark: SparkSession, starts: dict[int, int], folder: Path) -> DataFrame:
        limits = self._limits
        settings = RowStreamSettings(self._context.config, self._topic, starts, limits.rows, limits.bytes)
        settings.save(folder / "settings")
        return spark.readStream.format(FORMAT).option("settings", str(folder / "settings")).load()

    def flush(self, batch: Batch, frame: DataFrame) -> None:
        flush(self._context, self._topic, batch, self._load, partial(self._move, frame))

    def _load(self) -> Table:
        table = self._context.call_catalog(lambda: self._context.lake.load(self._identifier))
        check_not_rolled_back(table)
        return table

    def _move(self, frame: DataFrame, table: Table, ranges: tuple[Range, ...], attempt: FlushAttempt) -> bool:
        attempt.begin(ranges)
        rows = only_needed_rows(frame, {each.partition: each.start for each in ranges})
        target = TargetTable.of(table, attempt.id)
        reports = self._transform.apply(rows).mapInArrow(partial(write_rows, target), task_reports.SCHEMA)
        written = task_reports.join_reports(reports.toArrow())
        return attempt.commit(self._with_epochs(ranges), written.files, written.tasks)

    def _with_epochs(self, ranges: tuple[Range, ...]) -> tuple[Range, ...]:
        extents = self._context.call_store(lambda: self._rows.snapshots.extents(tail=False))
        epochs = {partition: extent.epochs for partition, extent in extents.items()}
        return tuple(
            each._replace(epoch=known.at(each.end - 1) if (known := epochs.get(each.partition)) else "")
            for each in ranges
        )
