"""Records of the log become rows of a table: the one place where that happens, for those who move and those who read.

Where records are bytes they are decoded first. What cannot be decoded, and what does not fit the table, is set aside
with the reason and with the record as the log has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from frazil.formats.decoding import Decoder, Piece
from frazil.formats.memo import BySchema
from frazil.lake.evolution import on_mismatch_of
from frazil.lake.mapping.mapper import Mapper, OnMismatch
from frazil.lake.mapping.misfits import Misfits
from frazil.lake.schema.arrow import arrow_schema, plain_schema
from frazil.lake.schema.replaced_columns import replaced_columns, use_table_names
from frazil.log.schema.columns import OFFSET, PARTITION


@dataclass(frozen=True)
class Rules:
    """What records become: rows of one state of a table."""

    schema: Schema
    on_mismatch: OnMismatch = "stop"
    decoder: Decoder | None = None
    """None where records are rows as they are."""
    asides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: TableMetadata, decoder: Decoder | None, schema: Schema | None = None) -> Rules:
        """`schema` is what the table is going to have, if that is known to be more."""
        return cls(schema or metadata.schema(), on_mismatch_of(metadata), decoder, replaced_columns(metadata))

    def known(self, age: int = 0) -> pa.Schema:
        """The columns whose types are settled, as decoders want them.

        From an `age` of 1 on, with the types of columns that were put aside, the newest first, by their old names.
        """
        columns = {column.name: column for column in plain_schema(self.schema)}
        hidden = {PARTITION, OFFSET, *(name for names in self.asides.values() for name in names)}
        old = {name: columns[names[age - 1]].type for name, names in self.asides.items() if 0 < age <= len(names)}
        return pa.schema([(name, old.get(name, each.type)) for name, each in columns.items() if name not in hidden])

    def all_known(self) -> list[pa.Schema]:
        """By age."""
        return [self.known(age) for age in range(1 + max(map(len, self.asides.values()), default=0))]


class Made(NamedTuple):
    batch: pa.RecordBatch
    """Rows with the columns of the table, in the order of their offsets."""
    misfits: Misfits | None = None
    wanted: Sequence[pa.Schema] = ()
    """Of rows that are not in `batch`: the table has to change before it can take them."""


class RowMaker:
    """Belongs to one thread. `lacks` tells which rows the table cannot take as it is, by their schema."""

    def __init__(self, rules: Rules, lacks: Callable[[pa.Schema], bool] | None = None) -> None:
        self._rules = rules
        self._lacks = lacks
        self._known = rules.all_known() if rules.decoder else []
        self._schema = arrow_schema(rules.schema)
        self._ways = BySchema(self._way)
        self._mapper: Mapper | None = None

    def make(self, batch: pa.RecordBatch, partition: int, offset: int) -> Made:
        """`offset` is that of the first record."""
        return self.make_at(batch, partition, pa.arange(offset, offset + len(batch)))

    def make_at(self, batch: pa.RecordBatch, partition: int, offsets: pa.Array) -> Made:
        """`offsets` are those of the records (int64), in order."""
        if self._rules.decoder is None:
            fitted = self._map(batch).fit(batch, partition, offsets)
            return Made(fitted.batch, Misfits.of(batch, offsets, fitted.faults) if fitted.faults else None)
        pieces, errors = self._decode(self._rules.decoder, batch)
        made: list[pa.RecordBatch] = []
        wanted: list[pa.Schema] = []
        for piece in pieces:
            rows = self._routed(piece)
            if rows is None:
                wanted.append(piece.rows.schema)
                continue
            whole = len(rows) == len(batch)
            fitted = self._map(rows).fit(rows, partition, offsets if whole else offsets.take(piece.places))
            made.append(fitted.batch)
            errors |= {piece.places[place].as_py(): reason for place, reason in fitted.faults.items()}
        return Made(self._join(made), Misfits.of(batch, offsets, errors) if errors else None, wanted)

    def _decode(self, decoder: Decoder, batch: pa.RecordBatch) -> tuple[list[Piece], dict[int, str]]:
        """What does not fit the columns that there are may fit those that were put aside."""
        newest, *older = self._known
        decoded = decoder.decode(batch, newest)
        pieces, errors = list(decoded.pieces), dict(decoded.faults)
        for known in older:
            if not errors:
                break
            places = pa.array(errors, pa.int64())
            again = decoder.decode(batch.take(places), known)
            pieces += [Piece(places.take(piece.places), piece.rows) for piece in again.pieces]
            errors = {place: reason for at, (place, reason) in enumerate(errors.items()) if at in again.faults}
        return pieces, errors

    def _routed(self, piece: Piece) -> pa.RecordBatch | None:
        """The rows with the names under which the table has their columns; None if it lacks some."""
        way = self._ways[piece.rows.schema]
        return None if way is None else piece.rows.rename_columns(way)

    def _way(self, schema: pa.Schema) -> list[str] | None:
        """The names that the table has for columns; None if it lacks some."""
        if self._lacks is not None and self._lacks(schema):
            return None
        names: list[str] = use_table_names(schema, self._rules.schema, self._rules.asides).names
        return names

    def _map(self, rows: pa.RecordBatch) -> Mapper:
        if self._mapper is None:
            self._mapper = Mapper(rows.schema, self._rules.schema, self._rules.on_mismatch)
        return self._mapper

    def _join(self, made: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        if len(made) == 1:
            return made[0]
        if not made:
            return _empty(self._schema)
        rows = pa.concat_batches(made)
        return rows.take(pc.sort_indices(rows.column(OFFSET)))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], column.type) for column in schema], schema=schema)
