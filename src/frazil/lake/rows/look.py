"""A topic at one moment: its table, its log, and what its rows look like.

The table says in one breath which rows it has and from which offset on the log is to be asked. So the table is loaded
first, then the log is looked at, which can only have more than the table knew; and the schema comes last, so that it
knows every column of the records found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import SegmentsGone, TableNotFound, TopicNotFound
from frazil.formats.decoding import Decoder
from frazil.formats.opening import open_decoder
from frazil.lake.catalog import Lake, dotted
from frazil.lake.evolution import grown, plan_following
from frazil.lake.layers import widest
from frazil.lake.offsets import TableState, check_history
from frazil.lake.rows.agreement import check_against_log
from frazil.lake.rows.cut import Span
from frazil.lake.rows.extents import NOTHING, Extent, Extents, Tails
from frazil.lake.rows.making import Rules
from frazil.lake.rows.parts import Shape
from frazil.lake.rows.place import LogPlace
from frazil.lake.rows.surveys import Surveys
from frazil.lake.schema import target_schema
from frazil.lake.standing import Standing, check_table
from frazil.lake.tables import base_identifier
from frazil.log.topics import TopicSchemas

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
            table = self.table()
            state = TableState.of(table) if table is not None else None
            extents = self.extents(tail=tail)
            if state is None or self._read == "table" or not (trimmed := _trimmed(state, extents)):
                break
            # A mover committed and the log was trimmed between the two looks: the table has more now.
        else:
            raise SegmentsGone(f"{self._topic}: {trimmed}.")
        if state is not None and self._read == "both":
            check_against_log(state, extents)
        offsets = state.offsets if state else {}
        return Look(table, offsets, extents, self._rules(table, offsets, extents))

    def extents(self, *, tail: bool) -> dict[int, Extent]:
        return {} if self._read == "table" else self._extents.look(tail=tail)

    def table(self) -> Table | None:
        """The base table with rows and offsets that agree; None when there is none yet, or it is not to be read."""
        if self._read == "log":
            return None
        check = check_table(self._lake, self._store, self._topic, self._identifier)
        if check.standing is Standing.ABSENT:
            if self._read == "table":
                raise TableNotFound(f"Topic {self._topic!r} has no table {dotted(self._identifier)} yet.")
            return None
        if check.standing is not Standing.FINE:
            raise check.error()
        assert check.table is not None
        if self._read == "both":
            check_history(check.table)
        return check.table

    def _rules(self, table: Table | None, offsets: Mapping[int, int], extents: Mapping[int, Extent]) -> Rules:
        if table is not None and self._read == "table":
            return Rules.of(table.metadata, None)
        newest = self._schemas.latest()
        if newest is None:
            raise TopicNotFound(f"Topic {self._topic!r} does not exist in {self._store.url}.")
        # The table gets these columns before the rows that have them; the log may have such rows already.
        decoder = open_decoder(self._config, self._topic, newest.schema)
        if decoder is None:
            follows = plan_following(table, newest.schema).schema if table else target_schema(newest.schema)
        else:
            columns = self._hot_columns(decoder, table, offsets, extents)
            follows = grown(table.metadata, *columns) if table else target_schema(widest(columns))
        return Rules.of(table.metadata, decoder, follows) if table else Rules(follows, decoder=decoder)

    def _hot_columns(
        self, decoder: Decoder, table: Table | None, offsets: Mapping[int, int], extents: Mapping[int, Extent]
    ) -> list[pa.Schema]:
        """The columns of records that are not in the table."""
        surveys = Surveys(self._place, decoder, self._config.format_of(self._topic))
        known = Rules.of(table.metadata, decoder).known() if table is not None else None
        found = [decoder.columns()] if table is None else []
        for partition, extent in extents.items():
            found += surveys.sealed(partition, extent, Span(offsets.get(partition, 0), extent.sealed_end), known)
            if extent.tail is not None:
                found += surveys.in_memory(partition, extent.tail, known)
            elif extent.end > extent.sealed_end:
                found += surveys.in_wal(partition, Span(extent.sealed_end, extent.end), known)
        return list(dict.fromkeys(found))


def _trimmed(state: TableState, extents: Mapping[int, Extent]) -> str:
    """Rows that are neither in the table nor in the log, in words."""
    return "; ".join(
        f"partition {partition}: the table has rows up to offset {offset}, but the log starts at {extent.start}"
        for partition, offset in sorted(state.offsets.items())
        if (extent := extents.get(partition)) is not None and extent.start > offset
    )
