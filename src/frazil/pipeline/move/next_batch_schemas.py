"""Finds the schemas of the next batch by decoding its records, for topics whose columns are known only from them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.formats.decoding import Decoder
from frazil.lake.commit.offsets import TableState
from frazil.log.reader import Position
from frazil.pipeline.move.batch_planner import BatchPlanner, FlushLimits
from frazil.scan.column_survey import initial_columns
from frazil.scan.decode import DecodingRules
from frazil.scan.log_extents import LogExtent
from frazil.scan.log_location import LogLocation
from frazil.store import ObjectStore


def first_batch_columns(config: Config, topic: str, decoder: Decoder, extents: Mapping[int, LogExtent]) -> pa.Schema:
    """Returns the columns of the first batch of a new table."""
    limits = FlushLimits.of(config.pipeline, config.topic(topic).pipeline)
    return initial_columns(LogLocation.of(config, topic), decoder, config.format_of(topic), extents, limits.rows)


def next_batch_schemas(
    config: Config, store: ObjectStore, topic: str, decoder: Decoder, table: Table
) -> list[pa.Schema]:
    """Returns the schemas of the rows that a mover would move next, in the order of their first rows."""
    offsets = TableState.of(table).offsets
    limits = FlushLimits.of(config.pipeline, config.topic(topic).pipeline)
    planner = BatchPlanner(
        store,
        topic,
        {partition: Position("", offset) for partition, offset in offsets.items()},
        FlushLimits(0, limits.rows, limits.bytes),
        parallelism=1,
        clock=lambda: 0.0,
    )
    known = DecodingRules.of(table.metadata, decoder).known()
    place = LogLocation.of(config, topic)
    found: dict[pa.Schema, None] = {}
    for partition, end in sorted(planner.next_end().items()):
        start = offsets.get(partition, 0)
        for records in place.reader(partition).read(start, end) if start < end else ():
            found |= dict.fromkeys(piece.rows.schema for piece in decoder.decode(records.batch, known).batches)
    return list(found)
