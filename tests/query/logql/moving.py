"""Moves lines from the log to the table, as a mover does."""

from __future__ import annotations

import random

from frazil.config.model import Config
from frazil.formats.otlp.logs import TOPIC
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt, attempt_folder, new_attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.outcomes import Committed
from frazil.lake.commit.ranges import Range
from frazil.lake.tables.opening import open_base_table
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.topics.schemas import TopicSchemas
from frazil.log.writer.writer import PartitionWriter
from frazil.scan.decode import DecodingRules, RowDecoder
from frazil.scan.log_location import LogLocation
from frazil.store import open_store

NOW_MS = 1_800_000_000_000


def move_lines(config: Config, writer: PartitionWriter) -> None:
    """Moves everything that the writer has."""
    writer.seal_all()
    store = open_store(config.store, config.data_dir)
    lake = Lake(config)
    try:
        _move(config, writer, lake, TopicSchemas(store, TOPIC))
    finally:
        lake.close()


def _move(config: Config, writer: PartitionWriter, lake: Lake, schemas: TopicSchemas) -> None:
    partition, end = writer.partition, writer.next_offset
    reader = LogLocation.of(config, TOPIC).reader(partition)
    epoch = reader.bounds().epochs
    assert epoch is not None
    store = open_store(config.store, config.data_dir)
    columns = schemas.known().schema
    table = open_base_table(lake, store, config, TOPIC, columns, {partition: 0}, {partition: epoch.current})
    state = TableState.of(table)
    start = state.offsets.get(partition, 0)
    attempt = new_attempt(NOW_MS, random.Random(end))
    files = DataFileWriter(table.io, table.metadata, attempt_folder(table.metadata.location, attempt), 0)
    rows = RowDecoder(DecodingRules.of(table.metadata, None))
    for records in reader.read(start, end):
        files.write(rows.decode(records.batch, partition, records.offset).batch)
    moved = Attempt(
        id=attempt,
        ranges=(Range(partition, start, end, epoch.current),),
        files=tuple(files.close()),
        table_uuid=state.uuid,
        schema_id=state.schema_id,
        spec_id=state.spec_id,
    )
    assert isinstance(commit_add_files(lake, table, moved, clock=lambda: NOW_MS), Committed)
