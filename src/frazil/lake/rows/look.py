"""A topic at one moment: its table, its log, and what its rows look like.

The table says in one breath which rows it has and from which offset on the log is to be asked. So the table is loaded
first, then the log is looked at, which can only have more than the table knew; and the schema comes last, so that it
knows every column of the records found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import SegmentsGone, TableNotFound, TopicNotFound
from frazil.lake.catalog import Lake, dotted
from frazil.lake.evolution import ON_MISMATCH, plan_following
from frazil.lake.mapping import OnMismatch
from frazil.lake.offsets import TableState, check_history
from frazil.lake.rows.agreement import check_against_log
from frazil.lake.rows.extents import NOTHING, Extent, Extents
from frazil.lake.rows.parts import Shape
from frazil.lake.rows.place import LogPlace
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
    schema: Schema
    on_mismatch: OnMismatch

    @property
    def partitions(self) -> list[int]:
        return sorted(self.offsets.keys() | self.extents.keys())

    def extent(self, partition: int) -> Extent:
        return self.extents.get(partition, NOTHING)

    def shape(self, columns: Sequence[str] | None) -> Shape:
        names = [field.name for field in self.schema.fields] if columns is None else columns
        return Shape(self.schema, self.on_mismatch, tuple(names))


class Looker:
    """Looks at one topic, again and again. Belongs to one thread."""

    def __init__(self, config: Config, place: LogPlace, read: Read, lake: Lake) -> None:
        self._topic = place.topic
        self._read = read
        self._lake = lake
        self._identifier = base_identifier(config, place.topic)
        self._store = place.open()
        self._extents = Extents(self._store, place.topic, place.data_dir)
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
        schema = self._schema(table)
        lenient = table is not None and table.metadata.properties.get(ON_MISMATCH) == "dead-letter"
        return Look(table, state.offsets if state else {}, extents, schema, "dead-letter" if lenient else "stop")

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

    def _schema(self, table: Table | None) -> Schema:
        if table is not None and self._read == "table":
            return table.schema()
        newest = self._schemas.latest()
        if newest is None:
            raise TopicNotFound(f"Topic {self._topic!r} does not exist in {self._store.url}.")
        if table is None:
            return target_schema(newest.schema)
        # The table gets these columns before the rows that have them; the log may have such rows already.
        return plan_following(table, newest.schema).schema


def _trimmed(state: TableState, extents: Mapping[int, Extent]) -> str:
    """Rows that are neither in the table nor in the log, in words."""
    return "; ".join(
        f"partition {partition}: the table has rows up to offset {offset}, but the log starts at {extent.start}"
        for partition, offset in sorted(state.offsets.items())
        if (extent := extents.get(partition)) is not None and extent.start > offset
    )
