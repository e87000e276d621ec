"""The sink that fills the base table of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from frazil.errors import TopicNotFound
from frazil.formats.kafka import is_kafka
from frazil.formats.topic_decoder import open_decoder
from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.evolution import follow_topic
from frazil.lake.tables.opening import find_base_table, open_base_table
from frazil.lake.tables.tables import base_identifier
from frazil.log.reader import Position
from frazil.log.schema.schema import SchemaVersion
from frazil.log.topics.generations import hidden
from frazil.log.topics.schemas import TopicSchemas
from frazil.pipeline.move import range_source, task_reports
from frazil.pipeline.move.batch_planner import FlushLimits
from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.move.dead_letters import DeadLetterTable
from frazil.pipeline.move.flush import BaseFlush, Batch, RecordFormat, Run, flush
from frazil.pipeline.move.next_batch_schemas import first_batch_columns
from frazil.pipeline.move.range_source import RangeStreamSettings
from frazil.pipeline.move.tasks import MoveJob, move_ranges
from frazil.scan.consistency import check_against_log
from frazil.scan.log_extents import LogExtent
from frazil.scan.log_location import LogLocation


class BaseSink:
    def __init__(self, context: PipelineContext, topic: str) -> None:
        self._context = context
        self._topic = topic
        self._identifier = base_identifier(context.config, topic)
        self._schemas = TopicSchemas(context.store, topic)
        self._epochs: dict[int, str] = {}
        self._flush = BaseFlush(context, LogLocation.of(context.config, topic), DeadLetterTable(context, topic))

    @property
    def name(self) -> str:
        return dotted(self._identifier)

    def open(self) -> dict[int, int]:
        if self._topic in hidden(self._context.store):
            raise TopicNotFound(f"Topic {self._topic!r} was deleted.")
        extents = self._context.log_extents(self._topic)
        table = self._open_table(extents)
        check_not_rolled_back(table)
        self._context.note_opened(self._topic, table)
        state = TableState.of(table)
        # The extents are read again: another mover may have committed to the table since, and the log has grown.
        check_against_log(state, self._context.log_extents(self._topic))
        self._epochs = dict(state.epochs)
        return dict(state.offsets)

    def _open_table(self, extents: Mapping[int, LogExtent]) -> Table:
        """Opens the table with all columns of the topic.

        If the columns are known only from decoded records, an existing table is changed when rows need it.
        """
        context, columns = self._context, self._newest_schema().schema
        decoder = open_decoder(context.config, self._topic, columns)
        if decoder is not None:
            table = context.call_catalog(
                lambda: find_base_table(context.lake, context.store, context.config, self._topic)
            )
            if table is not None:
                return table
            columns = first_batch_columns(context.config, self._topic, decoder, extents)
        return context.call_catalog(
            lambda: open_base_table(
                context.lake,
                context.store,
                context.config,
                self._topic,
                columns,
                log_starts={partition: extent.start for partition, extent in extents.items()},
                epochs={partition: extent.epoch for partition, extent in extents.items() if extent.epoch},
            )
        )

    def stream(self, spark: SparkSession, starts: dict[int, int], folder: Path) -> DataFrame:
        config = self._context.config
        settings = RangeStreamSettings(
            topic=self._topic,
            store=config.store,
            data_dir=config.data_dir.absolute(),
            starts={each: Position(self._epochs.get(each, ""), offset) for each, offset in starts.items()},
            limits=FlushLimits.of(config.pipeline, config.topic(self._topic).pipeline),
            parallelism=self._context.parallelism,
        )
        settings.save(folder / "settings")
        return spark.readStream.format(range_source.FORMAT).option("settings", str(folder / "settings")).load()

    @property
    def trigger_seconds(self) -> float:
        return self._context.config.pipeline.poll_interval_ms / 1000

    def flush(self, batch: Batch, ranges: DataFrame) -> None:
        self.flush_with(batch, partial(_run, ranges))

    def flush_with(self, batch: Batch, run: Run) -> None:
        newest = self._newest_schema()
        range_source = RecordFormat(newest.version, open_decoder(self._context.config, self._topic, newest.schema))
        flush(self._context, self._topic, batch, self._load, partial(self._flush.move, run, range_source))

    def _newest_schema(self) -> SchemaVersion:
        newest = self._context.call_store(self._schemas.latest)
        if newest is None:
            raise TopicNotFound(f"Topic {self._topic!r} has no schema in {self._context.store.url}.")
        return newest

    def _load(self) -> Table:
        """Loads the table and adds new columns of the topic, before rows with them are written.

        If records have to be decoded, their columns are not known yet, and the table is left as it is.
        """
        table = self._context.call_catalog(lambda: self._context.lake.load(self._identifier))
        check_not_rolled_back(table)
        schema = self._newest_schema().schema
        if is_kafka(schema):
            return table
        return self._context.call_catalog(lambda: follow_topic(self._context.lake, table, schema))


def _run(ranges: DataFrame, job: MoveJob) -> task_reports.WrittenFiles:
    return task_reports.join_reports(ranges.mapInArrow(partial(move_ranges, job), task_reports.SCHEMA).toArrow())
