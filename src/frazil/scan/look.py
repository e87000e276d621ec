"""A topic at one moment: its table, its log, and what its rows look like.

The table says in one breath which rows it has and from which offset on the log is to be asked. So the table is loaded
first, then the log is looked at, which can only have more than the table knew; and the schema comes last, so that it
knows every column of the records found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import SegmentsGone, TableNotFound, TopicNotFound
from frazil.formats.decoding import Decoder
from frazil.formats.opening import open_decoder
from frazil.lake.catalog.lake import Lake, dotted
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.evolution import evolved_schema, plan_following
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.schema.widening import widest
from frazil.lake.tables.table_check import TableStatus, check_table
from frazil.lake.tables.tables import base_identifier
from frazil.log.topics.schemas import TopicSchemas
from frazil.scan.agreement import check_against_log
from frazil.scan.cut import Span
from frazil.scan.decode import Rules
from frazil.scan.extents import NOTHING, Extent, Extents, Tails
from frazil.scan.log_place import LogPlace
from frazil.scan.parts import Shape
from frazil.scan.surveys import Surveys

Read = Literal["both", "table", "log"]
"""Where rows are read from."""

_TRIES = 5


@dataclass(frozen=True)
class Look:
    table: Table | None
    offsets: Mapping[int, int]
    """Committed offsets of the table: what is below them is in it."""
    extents: Mapping[int, Extent]
    rules: Rules
    records: pa.Schema | None = None
    """What records look like in the log; None when it is not read."""

    @property
    def schema(self) -> Schema:
        """Of the rows, wherever they are."""
        return self.rules.schema

    @property
    def partitions(self) -> list[int]:
        return sorted(self.offsets.keys() | self.extents.keys())

    def extent(self, partition: int) -> Extent:
        return self.extents.get(partition, NOTHING)

    def shape(self, columns: Sequence[str] | None, where: BooleanExpression | None = None) -> Shape:
        names = [field.name for field in self.schema.fields] if columns is None else columns
        return Shape(self.rules, tuple(names), where)


class Looker:
    """Looks at one topic, again and again. Belongs to one thread."""

    def __init__(self, config: Config, place: LogPlace, read: Read, lake: Lake, tails: Tails | None = None) -> None:
        self._config = config
        self._place = place
        self._topic = place.topic
        self._read = read
        self._lake = lake
        self._identifier = base_identifier(config, place.topic)
        self._store = place.open()
        self._extents = Extents(self._store, place.topic, place.data_dir, tails)
        self._schemas = TopicSchemas(self._store, place.topic)

    def look(self, *, tail: bool) -> Look:
        """`tail` adds what is not sealed yet, where it can be read. `TopicNotFound` when there is no such topic."""
        for _ in range(_TRIES):
            table, state, extents = self._agreeing(tail)
            if state is not None and self._read == "both":
                check_against_log(state, extents)
            try:
                return self._described(table, state.offsets if state else {}, extents)
            except SegmentsGone as error:
                # Records in a WAL were sealed, moved and trimmed meanwhile: they are in the table now.
                gone = error
        raise gone

    def _agreeing(self, tail: bool) -> tuple[Table | None, TableState | None, dict[int, Extent]]:
        """Table and log, together without a gap.

        A mover may commit, and the log be trimmed, between the two looks. Then the table has more when it is loaded
        again. Where it still does not name a partition, the log alone says where the partition begins.
        """
        table = self.table()
        for _ in range(_TRIES):
            state = TableState.of(table) if table is not None else None
            offsets = state.offsets if state else {}
            extents = self.extents(tail=tail)
            gaps = _gaps(offsets, extents) if self._read == "both" else {}
            if not gaps:
                return table, state, extents
            again = self.table()
            named = offsets.keys() | (TableState.of(again).offsets if again is not None else {}).keys()
            if named.isdisjoint(gaps):
                return table, state, extents
            table = again
        raise SegmentsGone(f"{self._topic}: {'; '.join(gaps.values())}.")

    def _described(self, table: Table | None, offsets: Mapping[int, int], extents: Mapping[int, Extent]) -> Look:
        if table is not None and self._read == "table":
            return Look(table, offsets, extents, Rules.of(table.metadata, None))
        newest = self._schemas.latest()
        if newest is None:
            raise TopicNotFound(f"Topic {self._topic!r} does not exist.")
        return Look(table, offsets, extents, self._rules(newest.schema, table, offsets, extents), newest.schema)

    def extents(self, *, tail: bool) -> dict[int, Extent]:
        return {} if self._read == "table" else self._extents.look(tail=tail)

    def table(self) -> Table | None:
        """The base table with rows and offsets that agree; None when there is none yet, or it is not to be read."""
        if self._read == "log":
            return None
        check = check_table(self._lake, self._store, self._topic, self._identifier)
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
        self, records: pa.Schema, table: Table | None, offsets: Mapping[int, int], extents: Mapping[int, Extent]
    ) -> Rules:
        # The table gets these columns before the rows that have them; the log may have such rows already.
        decoder = open_decoder(self._config, self._topic, records)
        if decoder is None:
            follows = plan_following(table, records).schema if table else base_table_schema(records)
        else:
            columns = self._hot_columns(decoder, table, offsets, extents)
            follows = evolved_schema(table.metadata, *columns) if table else base_table_schema(widest(columns))
        return Rules.of(table.metadata, decoder, follows) if table else Rules(follows, decoder=decoder)

    def _hot_columns(
        self, decoder: Decoder, table: Table | None, offsets: Mapping[int, int], extents: Mapping[int, Extent]
    ) -> list[pa.Schema]:
        """The columns of records that are not in the table."""
        surveys = Surveys(self._place, decoder, self._config.format_of(self._topic))
        ages: Sequence[pa.Schema | None] = Rules.of(table.metadata, decoder).all_known() if table else [None]
        found = [decoder.columns()] if table is None else []
        for (partition, extent), known in product(extents.items(), ages):
            found += surveys.sealed(partition, extent, Span(offsets.get(partition, 0), extent.sealed_end), known)
            if extent.tail is not None:
                found += surveys.in_memory(partition, extent.tail, known)
            elif extent.end > extent.sealed_end:
                found += surveys.in_wal(partition, Span(extent.sealed_end, extent.end), known)
        return list(dict.fromkeys(found))


def _gaps(offsets: Mapping[int, int], extents: Mapping[int, Extent]) -> dict[int, str]:
    """Rows that are neither in the table nor in the log, in words, by partition."""
    return {
        partition: f"partition {partition}: the table has rows up to offset {offset}, but the log starts at "
        f"{extent.start}"
        for partition, extent in sorted(extents.items())
        if extent.start > (offset := offsets.get(partition, 0))
    }
