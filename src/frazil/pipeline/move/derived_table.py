"""A derived table as a mover's sink: a query of its own, with offsets of its own.

Its rows come from the log, or from the base table where the log does not have them any more.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.offsets import TableState, check_history
from frazil.lake.commit.ranges import Range
from frazil.lake.evolution import follow_query
from frazil.lake.tables.opening import open_derived_table
from frazil.lake.tables.tables import derived_identifier
from frazil.pipeline.datasource.private import FORMAT, StreamSettings
from frazil.pipeline.datasource.types import spark_schema
from frazil.pipeline.move import results
from frazil.pipeline.move.account import Account
from frazil.pipeline.move.batches import Limits
from frazil.pipeline.move.flush import Batch, flush
from frazil.pipeline.move.tasks import Target
from frazil.pipeline.move.tools import Tools
from frazil.pipeline.move.transform import Transform, still_needed, write_rows
from frazil.scan.consistency import check_against_log
from frazil.scan.topic_rows import TopicRows
from frazil.scan.topic_snapshot import TopicSnapshot


class DerivedSink:
    def __init__(self, tools: Tools, spark: SparkSession, topic: str, name: str) -> None:
        self._tools = tools
        self._spark = spark
        self._topic = topic
        self._name = name
        self._config = tools.config.topic(topic).derived[name]
        self._identifier = derived_identifier(tools.config, topic, name)
        self._transform = Transform(self._config.sql, f"topics.{topic}.derived.{name}.sql")
        self._rows = TopicRows(tools.config, topic, "both", lake=tools.lake)

    @property
    def name(self) -> str:
        return dotted(self._identifier)

    @property
    def trigger_seconds(self) -> float:
        return self._limits.seconds

    @property
    def _limits(self) -> Limits:
        return Limits.of(self._tools.config.pipeline, self._tools.config.topic(self._topic).pipeline)

    def open(self) -> dict[int, int]:
        look = self._look()
        schema = self._transform.schema(self._spark, spark_schema(look.schema))
        table = self._tools.ask_catalog(
            lambda: open_derived_table(
                self._tools.lake,
                self._tools.store,
                self._tools.config,
                self._topic,
                self._name,
                schema,
                offsets=self._begin(look),
                epochs={},
            )
        )
        check_history(table)
        self._tools.note_opened(self._topic, table)
        check_against_log(TableState.of(table), look.extents)
        table = self._tools.ask_catalog(lambda: follow_query(self._tools.lake, table, schema))
        return dict(TableState.of(table).offsets)

    def _look(self) -> TopicSnapshot:
        return self._tools.ask_catalog(lambda: self._rows.snapshots.take(tail=False))

    def _begin(self, look: TopicSnapshot) -> dict[int, int]:
        """Where a new table begins: with all there is, or with what the base table does not have yet."""
        if self._config.backfill:
            return {partition: self._rows.earliest(look, partition) for partition in look.partitions}
        return {partition: look.offsets.get(partition, look.extent(partition).start) for partition in look.partitions}

    def stream(self, spark: SparkSession, starts: dict[int, int], folder: Path) -> DataFrame:
        limits = self._limits
        settings = StreamSettings(self._tools.config, self._topic, starts, limits.rows, limits.bytes)
        settings.save(folder / "settings")
        return spark.readStream.format(FORMAT).option("settings", str(folder / "settings")).load()

    def flush(self, batch: Batch, frame: DataFrame) -> None:
        flush(self._tools, self._topic, batch, self._load, partial(self._move, frame))

    def _load(self) -> Table:
        table = self._tools.ask_catalog(lambda: self._tools.lake.load(self._identifier))
        check_history(table)
        return table

    def _move(self, frame: DataFrame, table: Table, ranges: tuple[Range, ...], account: Account) -> bool:
        account.begin(ranges)
        rows = still_needed(frame, {each.partition: each.start for each in ranges})
        target = Target.of(table, account.attempt)
        reports = self._transform.apply(rows).mapInArrow(partial(write_rows, target), results.SCHEMA)
        written = results.collect(reports.toArrow())
        return account.commit(self._with_epochs(ranges), written.files, written.tasks)

    def _with_epochs(self, ranges: tuple[Range, ...]) -> tuple[Range, ...]:
        extents = self._tools.ask_store(lambda: self._rows.snapshots.extents(tail=False))
        epochs = {partition: extent.epochs for partition, extent in extents.items()}
        return tuple(
            each._replace(epoch=known.at(each.end - 1) if (known := epochs.get(each.partition)) else "")
            for each in ranges
        )
