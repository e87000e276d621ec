"""Turns records of the log into rows of a table. This is the only place that does so, for moving and for reading.

Records that are bytes are decoded first. A record that cannot be decoded, or does not fit the table, is returned as a
misfit, with the reason and with the record as the log has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from frazil.formats.decoding import DecodedBatch, Decoder
from frazil.formats.schema_cache import SchemaCache
from frazil.lake.evolution import on_mismatch_of
from frazil.lake.mapping.mapper import Mapper, OnMismatch
from frazil.lake.mapping.misfits import Misfits
from frazil.lake.schema.arrow import arrow_schema, plain_schema
from frazil.lake.schema.replaced_columns import replaced_columns, use_table_names
from frazil.log.schema.columns import OFFSET, PARTITION


@dataclass(frozen=True)
class DecodingRules:
    """Says how records become rows: the schema of the table, its policy for misfits, and the decoder."""

    schema: Schema
    on_mismatch: OnMismatch = "stop"
    decoder: Decoder | None = None
    """This is None where the records are rows already."""
    asides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: TableMetadata, decoder: Decoder | None, schema: Schema | None = None) -> DecodingRules:
        """`schema` is the schema that the table is going to have, if it is known to grow."""
        return cls(schema or metadata.schema(), on_mismatch_of(metadata), decoder, replaced_columns(metadata))

    def known(self, age: int = 0) -> pa.Schema:
        """Returns the columns whose types are settled, as decoders want them.

        With an `age` of 1 or more, columns that were put aside have their former types, the newest first, under their
        old names.
        """
        columns = {column.name: column for column in plain_schema(self.schema)}
        hidden = {PARTITION, OFFSET, *(name for names in self.asides.values() for name in names)}
        old = {name: columns[names[age - 1]].type for name, names in self.asides.items() if 0 < age <= len(names)}
        return pa.schema([(name, old.get(name, each.type)) for name, each in columns.items() if name not in hidden])

    def all_known(self) -> list[pa.Schema]:
        """Returns `known` for each age."""
        return [self.known(age) for age in range(1 + max(map(len, self.asides.values()), default=0))]


class DecodedRecords(NamedTuple):
    batch: pa.RecordBatch
    """These rows have the columns of the table, and are in the order of their offsets."""
    misfits: Misfits | None = None
    wanted: Sequence[pa.Schema] = ()
    """These are the schemas of rows that are not in `batch`: the table must change before it can take them."""


class RowDecoder:
    """Decodes records into rows. Belongs to one thread.

    `lacks` says whether the table cannot take rows of a schema as it is.
    """

    def __init__(self, rules: DecodingRules, lacks: Callable[[pa.Schema], bool] | None = None) -> None:
        self._rules = rules
        self._lacks = lacks
        self._known = rules.all_known() if rules.decoder else []
        self._schema = arrow_schema(rules.schema)
        self._names_by_schema = SchemaCache(self._table_names)
        self._mapper: Mapper | None = None

    def keeps_all(self, records: pa.Schema) -> bool:
        """Returns whether every record of this schema is a row, so that nothing but their number need be known."""
        if self._rules.decoder is not None:
            return False
        return Mapper(records, self._rules.schema, self._rules.on_mismatch).takes_all(records)

    def decode(self, batch: pa.RecordBatch, partition: int, offset: int) -> DecodedRecords:
        """`offset` is the offset of the first record."""
        return self.decode_at(batch, partition, pa.arange(offset, offset + len(batch)))

    def decode_at(self, batch: pa.RecordBatch, partition: int, offsets: pa.Array) -> DecodedRecords:
        """`offsets` are the offsets of the records (int64), in ascending order."""
        if self._rules.decoder is None:
            fitted = self._map(batch).fit(batch, partition, offsets)
            return DecodedRecords(fitted.batch, Misfits.of(batch, offsets, fitted.faults) if fitted.faults else None)
        pieces, errors = self._decode(self._rules.decoder, batch)
        made: list[pa.RecordBatch] = []
        wanted: list[pa.Schema] = []
        for piece in pieces:
            rows = self._rename_to_table(piece)
            if rows is None:
                wanted.append(piece.rows.schema)
                continue
            whole = len(rows) == len(batch)
            fitted = self._map(rows).fit(rows, partition, offsets if whole else offsets.take(piece.positions))
            made.append(fitted.batch)
            errors |= {piece.positions[place].as_py(): reason for place, reason in fitted.faults.items()}
        return DecodedRecords(self._join(made), Misfits.of(batch, offsets, errors) if errors else None, wanted)

    def _decode(self, decoder: Decoder, batch: pa.RecordBatch) -> tuple[list[DecodedBatch], dict[int, str]]:
        """Decodes records. Those that do not fit the current columns are tried with columns that were put aside."""
        newest, *older = self._known
        decoded = decoder.decode(batch, newest)
        pieces, errors = list(decoded.batches), dict(decoded.faults)
        for known in older:
            if not errors:
                break
            places = pa.array(errors, pa.int64())
            again = decoder.decode(batch.take(places), known)
            pieces += [DecodedBatch(places.take(piece.positions), piece.rows) for piece in again.batches]
            errors = {place: reason for at, (place, reason) in enumerate(errors.items()) if at in again.faults}
        return pieces, errors

    def _rename_to_table(self, piece: DecodedBatch) -> pa.RecordBatch | None:
        """Returns the rows with the names that the table has for their columns, or None if it lacks some."""
        names_in_table = self._names_by_schema[piece.rows.schema]
        return None if names_in_table is None else piece.rows.rename_columns(names_in_table)

    def _table_names(self, schema: pa.Schema) -> list[str] | None:
        """Returns the names that the table has for these columns, or None if it lacks some."""
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
