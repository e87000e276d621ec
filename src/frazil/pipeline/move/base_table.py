"""The base table of a topic as a mover's sink."""

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
from frazil.lake.commit.offsets import TableState, check_history
from frazil.lake.evolution import follow_topic
from frazil.lake.tables.opening import find_base_table, open_base_table
from frazil.lake.tables.tables import base_identifier
from frazil.log.reader import Position
from frazil.log.schema.schema import SchemaVersion
from frazil.log.topics.generations import hidden
from frazil.log.topics.schemas import TopicSchemas
from frazil.pipeline.move import results, source
from frazil.pipeline.move.batches import Limits
from frazil.pipeline.move.dead_letters import DeadLetters
from frazil.pipeline.move.flush import BaseFlush, Batch, Run, Source, flush
from frazil.pipeline.move.preview import first_batch_columns
from frazil.pipeline.move.source import StreamSettings
from frazil.pipeline.move.tasks import MoveJob, move_ranges
from frazil.pipeline.move.tools import Tools
from frazil.scan.consistency import check_against_log
from frazil.scan.log_extents import LogExtent
from frazil.scan.log_location import LogLocation


class BaseSink:
    def __init__(self, tools: Tools, topic: str) -> None:
        self._tools = tools
        self._topic = topic
        self._identifier = base_identifier(tools.config, topic)
        self._schemas = TopicSchemas(tools.store, topic)
        self._epochs: dict[int, str] = {}
        self._flush = BaseFlush(tools, LogLocation.of(tools.config, topic), DeadLetters(tools, topic))

    @property
    def name(self) -> str:
        return dotted(self._identifier)

    def open(self) -> dict[int, int]:
        if self._topic in hidden(self._tools.store):
            raise TopicNotFound(f"Topic {self._topic!r} was deleted.")
        extents = self._tools.log_extents(self._topic)
        table = self._open_table(extents)
        check_history(table)
        self._tools.note_opened(self._topic, table)
        state = TableState.of(table)
        # Again: another mover may have gone on with the table since, and the log with it.
        check_against_log(state, self._tools.log_extents(self._topic))
        self._epochs = dict(state.epochs)
        return dict(state.offsets)

    def _open_table(self, extents: Mapping[int, LogExtent]) -> Table:
        """With all columns of the topic; where only records tell of them, it follows when rows come that need it."""
        tools, columns = self._tools, self._newest_schema().schema
        decoder = open_decoder(tools.config, self._topic, columns)
        if decoder is not None:
            table = tools.ask_catalog(lambda: find_base_table(tools.lake, tools.store, tools.config, self._topic))
            if table is not None:
                return table
            columns = first_batch_columns(tools.config, self._topic, decoder, extents)
        return tools.ask_catalog(
            lambda: open_base_table(
                tools.lake,
                tools.store,
                tools.config,
                self._topic,
                columns,
                log_starts={partition: extent.start for partition, extent in extents.items()},
                epochs={partition: extent.epoch for partition, extent in extents.items() if extent.epoch},
            )
        )

    def stream(self, spark: SparkSession, starts: dict[int, int], folder: Path) -> DataFrame:
        config = self._tools.config
        settings = StreamSettings(
            topic=self._topic,
            store=config.store,
            data_dir=config.data_dir.absolute(),
            starts={each: Position(self._epochs.get(each, ""), offset) for each, offset in starts.items()},
            limits=Limits.of(config.pipeline, config.topic(self._topic).pipeline),
            parallelism=self._tools.parallelism,
        )
        settings.save(folder / "settings")
        return spark.readStream.format(source.FORMAT).option("settings", str(folder / "settings")).load()

    @property
    def trigger_seconds(self) -> float:
        return self._tools.config.pipeline.poll_interval_ms / 1000

    def flush(self, batch: Batch, ranges: DataFrame) -> None:
        self.flush_with(batch, partial(_run, ranges))

    def flush_with(self, batch: Batch, run: Run) -> None:
        newest = self._newest_schema()
        source = Source(newest.version, open_decoder(self._tools.config, self._topic, newest.schema))
        flush(self._tools, self._topic, batch, self._load, partial(self._flush.move, run, source))

    def _newest_schema(self) -> SchemaVersion:
        newest = self._tools.ask_store(self._schemas.latest)
        if newest is None:
            raise TopicNotFound(f"Topic {self._topic!r} has no schema in {self._tools.store.url}.")
        return newest

    def _load(self) -> Table:
        """The table with every column that the topic has: they come before the rows that have them.

        What columns the rows have is not known here where records are bytes.
        """
        table = self._tools.ask_catalog(lambda: self._tools.lake.load(self._identifier))
        check_history(table)
        schema = self._newest_schema().schema
        if is_kafka(schema):
            return table
        return self._tools.ask_catalog(lambda: follow_topic(self._tools.lake, table, schema))


def _run(ranges: DataFrame, job: MoveJob) -> results.Written:
    return results.collect(ranges.mapInArrow(partial(move_ranges, job), results.SCHEMA).toArrow())
