"""Takes snapshots of a topic: its table, its log and the schema of its rows at one moment.

The table says which rows it has and from which offset on the log has the others. So the table is loaded first. The
log, which is read next, can only have more than the table knew. The schema comes last, so that it has every column of
the records found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import SegmentsGone, TableNotFound, TopicNotFound
from frazil.formats.decoding import Decoder
from frazil.formats.topic_decoder import open_decoder
from frazil.lake.catalog.lake import Lake, dotted
from frazil.lake.commit.complete_offsets import COMPLETE_FROM
from frazil.lake.commit.offsets import EPOCH, OFFSET, TableState, check_not_rolled_back
from frazil.lake.evolution import evolved_schema, plan_following
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.schema.widening import widest
from frazil.lake.tables.table_check import TableStatus, check_table
from frazil.lake.tables.tables import base_identifier
from frazil.log.topics.schemas import TopicSchemas
from frazil.scan.column_survey import ColumnSurvey
from frazil.scan.consistency import check_against_log
from frazil.scan.decode import DecodingRules
from frazil.scan.log_extents import EMPTY_EXTENT, LogExtent, LogExtents, Tails
from frazil.scan.log_location import LogLocation
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.planning.remembered_table import RememberedTable
from frazil.scan.planning.topic_listing import LogReplaced, TopicListing
from frazil.scan.predicates.tree import Predicate
from frazil.scan.scan_tasks import Projection
from frazil.store import open_store

Read = Literal["both", "table", "log"]
"""Rows are read from both, from the table or from the log."""

_TRIES = 5


@dataclass(frozen=True)
class TopicSnapshot:
    table: Table | None
    offsets: Mapping[int, int]
    """The table has the rows below these committed offsets."""
    extents: Mapping[int, LogExtent]
    rules: DecodingRules
    records: pa.Schema | None = None
    """Records have this schema in the log. It is None when the log is not read."""

    @property
    def schema(self) -> Schema:
        """Returns the schema of the rows, wherever they are."""
        return self.rules.schema

    @property
    def partitions(self) -> list[int]:
        return sorted(self.offsets.keys() | self.extents.keys())

    def extent(self, partition: int) -> LogExtent:
        return self.extents.get(partition, EMPTY_EXTENT)

    def projection(self, columns: Sequence[str] | None, where: Predicate | None = None) -> Projection:
        names = [field.name for field in self.schema.fields] if columns is None else columns
        return Projection(self.rules, tuple(names), where)


class TopicSnapshots:
    """Takes snapshots of one topic. Belongs to one thread."""

    def __init__(
        self, config: Config, location: LogLocation, read: Read, lake: Lake, tails: Tails | None = None
    ) -> None:
        self._config = config
        self._location = location
        self._topic = location.topic
        self._read = read
        self._lake = lake
        self._identifier = base_identifier(config, location.topic)
        store = open_store(location.store, location.data_dir, read_only=True)
        self._store = TopicListing(store, location.topic)
        self._tails = tails
        self.remembered = RememberedTable(
            self._checked_table,
            lambda: lake.metadata_location(self._identifier),
            config.lake.read_age_seconds,
        )
        self._forget()

    def _forget(self) -> None:
        """Forgets what was read of the log, because it was replaced by another."""
        self._extents = LogExtents(self._store, self._topic, self._location.data_dir, self._tails)
        self._schemas = TopicSchemas(self._store, self._topic)
        self._known: tuple[tuple[object, ...], DecodingRules] | None = None
        self._decoder: tuple[pa.Schema, Decoder | None] | None = None

    def take(self, *, tail: bool) -> TopicSnapshot:
        """Takes a snapshot. With `tail` it includes unsealed records where they can be read.

        Raises `TopicNotFound` when there is no such topic.
        """
        for _ in range(_TRIES):
            table, state, extents = self._agreeing(tail)
            if state is not None and self._read == "both":
                check_against_log(state, extents)
            try:
                return self._described(table, state.offsets if state else {}, extents)
            except SegmentsGone as error:
                # Records in a WAL were sealed, moved and trimmed meanwhile, so the table has them now.
                gone = error
        raise gone

    def _agreeing(self, tail: bool) -> tuple[Table | None, TableState | None, dict[int, LogExtent]]:
        """Returns table and log without a gap between them.

        Between the two reads a mover may commit and the log may be trimmed. Then the reloaded table has more. If it
        still does not name a partition, the log alone says where the partition begins.
        """
        table = self.table()
        for _ in range(_TRIES):
            state = TableState.of(table) if table is not None else None
            offsets = state.offsets if state else {}
            extents = self.extents(tail=tail)
            gaps = _gaps(offsets, extents) if self._read == "both" else {}
            if not gaps:
                return table, state, extents
            again = self.table(newest=True)
            named = offsets.keys() | (TableState.of(again).offsets if again is not None else {}).keys()
            if named.isdisjoint(gaps):
                return table, state, extents
            table = again
        raise SegmentsGone(f"{self._topic}: {'; '.join(gaps.values())}.")

    def _described(
        self, table: Table | None, offsets: Mapping[int, int], extents: Mapping[int, LogExtent]
    ) -> TopicSnapshot:
        if table is not None and self._read == "table":
            return TopicSnapshot(table, offsets, extents, DecodingRules.of(table.metadata, None))
        newest = self._schemas.latest()
        if newest is None:
            raise TopicNotFound(f"Topic {self._topic!r} does not exist.")
        return TopicSnapshot(
            table, offsets, extents, self._rules(newest.schema, table, offsets, extents), newest.schema
        )

    def extents(self, *, tail: bool) -> dict[int, LogExtent]:
        if self._read == "table":
            return {}
        try:
            return self._extents.current(tail=tail, listed=self._store.refresh)
        except LogReplaced:
            self._forget()
            return self._extents.current(tail=tail)

    def table(self, *, newest: bool = False) -> Table | None:
        """Returns the base table, or None when it does not exist yet or is not to be read.

        `newest` does not accept an older answer of the catalog.
        """
        return None if self._read == "log" else self.remembered.table(newest=newest)

    def _checked_table(self) -> Table | None:
        check = check_table(self._lake, self._store.store, self._topic, self._identifier)
        if check.status is TableStatus.NEVER_CREATED:
            if self._read == "table":
                raise TableNotFound(f"Topic {self._topic!r} has no table {dotted(self._identifier)} yet.")
            return None
        if check.status is not TableStatus.OK:
            raise check.error()
        assert check.table is not None
        if self._read == "both":
            check_not_rolled_back(check.table)
        return check.table

    def _rules(
        self, records: pa.Schema, table: Table | None, offsets: Mapping[int, int], extents: Mapping[int, LogExtent]
    ) -> DecodingRules:
        """Returns the same object as before, unless the columns have changed."""
        # The table gets new columns before the rows that have them, but the log may have such rows already.
        if self._decoder is None or self._decoder[0] is not records:
            self._decoder = (records, open_decoder(self._config, self._topic, records))
        decoder = self._decoder[1]
        columns = tuple(self._hot_columns(decoder, table, offsets, extents)) if decoder is not None else (records,)
        key = (_shape(table), decoder, columns)
        if self._known is not None and self._known[0] == key:
            return self._known[1]
        if decoder is None:
            follows = plan_following(table, records).schema if table else base_table_schema(records)
        else:
            follows = evolved_schema(table.metadata, *columns) if table else base_table_schema(widest(columns))
        rules = (
            DecodingRules.of(table.metadata, decoder, follows) if table else DecodingRules(follows, decoder=decoder)
        )
        self._known = (key, rules)
        return rules

    def _hot_columns(
        self, decoder: Decoder, table: Table | None, offsets: Mapping[int, int], extents: Mapping[int, LogExtent]
    ) -> list[pa.Schema]:
        """Returns the columns of records that are not in the table."""
        survey = ColumnSurvey(self._location, decoder, self._config.format_of(self._topic))
        ages: Sequence[pa.Schema | None] = DecodingRules.of(table.metadata, decoder).all_known() if table else [None]
        found = [decoder.columns()] if table is None else []
        for (partition, extent), known in product(extents.items(), ages):
            found += survey.of_segments(
                partition, extent, OffsetRange(offsets.get(partition, 0), extent.sealed_end), known
            )
            if extent.tail is not None:
                found += survey.of_entries(partition, extent.tail, known)
            elif extent.end > extent.sealed_end:
                found += survey.of_wal(partition, OffsetRange(extent.sealed_end, extent.end), known)
        return list(dict.fromkeys(found))


def _shape(table: Table | None) -> tuple[object, ...] | None:
    """Returns what decoding depends on of a table: its columns, and properties that Frazil keeps about them."""
    if table is None:
        return None
    metadata = table.metadata
    own = tuple((key, value) for key, value in sorted(metadata.properties.items()) if not _is_progress(key))
    return (metadata.table_uuid, metadata.current_schema_id, metadata.last_column_id, own)


def _is_progress(key: str) -> bool:
    return key.startswith((OFFSET, EPOCH, COMPLETE_FROM))


def _gaps(offsets: Mapping[int, int], extents: Mapping[int, LogExtent]) -> dict[int, str]:
    """Describes, by partition, the rows that are neither in the table nor in the log."""
    return {
        partition: f"partition {partition}: the table has rows up to offset {offset}, but the log starts at "
        f"{extent.start}"
        for partition, extent in sorted(extents.items())
        if extent.start > (offset := offsets.get(partition, 0))
    }
