"""Decodes whole Kafka records: key and value each by its own format, beside the columns that Kafka adds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats import kafka
from frazil.formats.column_names import VALUE, column_of, fields_of
from frazil.formats.columns import columns_of
from frazil.formats.decoding import Decoded, DecodedBatch
from frazil.formats.schema_cache import SchemaCache
from frazil.formats.type_merging import merge_schemas, merge_types
from frazil.formats.values import DecodedColumn, DecodedValues, Payloads, Positions, ValueDecoder

KEY_SCHEMA_ID = "__key_schema_id"
VALUE_SCHEMA_ID = "__value_schema_id"
"""The headers in which newer producers put the schema id of the key and of the value."""

_KEPT = (kafka.HEADERS, kafka.TIMESTAMP, kafka.TIMESTAMP_TYPE, kafka.PARTITION, kafka.OFFSET)


class RecordDecoder:
    """Turns records into rows. A row has the key, the columns that Kafka adds, and then the fields of the value, or
    the column `value` if the value is not a record.

    If values are records as a rule, `_kafka_tombstone` is true for a record without a value; such a row has none of
    the value's columns.
    """

    def __init__(self, key: ValueDecoder, value: ValueDecoder) -> None:
        self.key = key
        self.value = value
        self._known_of = SchemaCache(self._split)

    def columns(self) -> pa.Schema:
        return self._row_schema(self.key.kinds(), self.value.kinds())

    def survey(self, batch: pa.RecordBatch, known: pa.Schema | None = None) -> pa.Schema:
        keys, values = _payloads(batch)
        known_keys, known_values = self._known(known)
        return self._row_schema(self.key.survey(keys, known_keys), self.value.survey(values, known_values))

    def decode(self, batch: pa.RecordBatch, known: pa.Schema | None = None) -> Decoded:
        key_payloads, value_payloads = _payloads(batch)
        known_keys, known_values = self._known(known)
        keys = self.key.decode(key_payloads, known_keys)
        values = self.value.decode(value_payloads, known_values)
        faults = {position: f"value: {reason}" for position, reason in values.faults.items()}
        faults |= {position: f"key: {reason}" for position, reason in keys.faults.items()}
        nobody = _type_of_all(keys.columns)
        batches = [
            DecodedBatch(pa.array(positions), self._rows_at(batch, positions, key, value, nobody))
            for positions, key, value in _combined(len(batch), keys, values, faults)
        ]
        return Decoded(batches, dict(sorted(faults.items())))

    def _rows_at(
        self,
        batch: pa.RecordBatch,
        positions: Positions,
        key: DecodedColumn | None,
        value: DecodedColumn | None,
        nobody: pa.DataType,
    ) -> pa.RecordBatch:
        chosen = batch.select(_KEPT)
        if len(positions) < len(batch):
            chosen = chosen.take(pa.array(positions))
        names = [kafka.KEY, *_KEPT]
        columns = [pa.nulls(len(positions), nobody) if key is None else _at(key, positions), *chosen.columns]
        if self.value.records:
            names.append(kafka.TOMBSTONE)
            columns.append(pa.repeat(pa.scalar(value is None), len(positions)))
        if value is not None:
            column = _at(value, positions)
            if pa.types.is_struct(column.type):
                names += [column_of(field.name) for field in column.type]
                columns += column.flatten()
            else:
                names.append(VALUE)
                columns.append(column)
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _known(self, rows: pa.Schema | None) -> tuple[pa.Schema | None, pa.Schema | None]:
        """Splits the known columns of rows into those of keys and those of values."""
        return (None, None) if rows is None else self._known_of[rows]

    def _split(self, rows: pa.Schema) -> tuple[pa.Schema | None, pa.Schema]:
        return _key_fields(rows, self.key.records), fields_of(rows)

    def _row_schema(self, keys: Iterable[pa.DataType], values: Iterable[pa.DataType]) -> pa.Schema:
        """Returns the columns of rows whose keys and values have these types."""
        own = [kafka.SCHEMA.field(name) for name in _KEPT]
        if self.value.records:
            own.append(pa.field(kafka.TOMBSTONE, pa.bool_()))
        named = [pa.schema([pa.field(kafka.KEY, kind)]) for kind in (pa.null(), *keys)]
        return merge_schemas([*named, pa.schema(own), *map(columns_of, values)])


def _payloads(batch: pa.RecordBatch) -> tuple[Payloads, Payloads]:
    headers = batch.column(kafka.HEADERS)
    return (
        Payloads(batch.column(kafka.KEY), _from_header(headers, KEY_SCHEMA_ID)),
        Payloads(batch.column(kafka.VALUE), _from_header(headers, VALUE_SCHEMA_ID)),
    )


def _from_header(headers: pa.Array, name: str) -> pa.Array | None:
    """Returns the value of each record's last header of this name; None if no record has one."""
    if headers.null_count == len(headers):
        return None
    flat = headers.flatten()
    found = pc.equal(flat.field("key"), name).fill_null(False)
    if not found.true_count:
        return None
    owners = pc.list_parent_indices(headers).filter(found).to_numpy()
    values = flat.field("value").filter(found)
    rows, last = np.unique(owners[::-1], return_index=True)
    index = np.zeros(len(headers), np.int64)
    absent = np.ones(len(headers), np.bool_)
    index[rows], absent[rows] = len(owners) - 1 - last, False
    return values.take(pa.array(index, mask=absent))


def _combined(
    count: int, keys: DecodedValues, values: DecodedValues, faults: dict[int, str]
) -> Iterator[tuple[Positions, DecodedColumn | None, DecodedColumn | None]]:
    """Yields each combination of a decoded key column and a decoded value column, with the positions of the records
    that have it. None stands for a null key or value."""
    if not faults and all(
        len(each.columns) == 1 and len(each.columns[0].positions) == count for each in (keys, values)
    ):
        yield keys.columns[0].positions, keys.columns[0], values.columns[0]
        return
    pair = _column_numbers(count, keys.columns) * (len(values.columns) + 1) + _column_numbers(count, values.columns)
    good = np.ones(count, np.bool_)
    good[list(faults)] = False
    positions = np.flatnonzero(good)
    pair = pair[positions]
    for number in np.unique(pair).tolist():
        key, value = divmod(number, len(values.columns) + 1)
        yield (
            positions[pair == number],
            keys.columns[key - 1] if key else None,
            values.columns[value - 1] if value else None,
        )


def _column_numbers(count: int, columns: list[DecodedColumn]) -> Positions:
    """Returns the number of the column that each position is in, counted from 1; 0 if it is in none."""
    numbers = np.zeros(count, np.int64)
    for number, column in enumerate(columns, 1):
        numbers[column.positions] = number
    return numbers


def _at(decoded: DecodedColumn, positions: Positions) -> pa.Array:
    if len(positions) == len(decoded.positions):
        return decoded.column
    return decoded.column.take(pa.array(np.searchsorted(decoded.positions, positions)))


def _type_of_all(columns: list[DecodedColumn]) -> pa.DataType:
    """Returns the type for null keys: that of the other keys if they agree."""
    kind: pa.DataType | None = pa.null()
    for each in columns:
        kind = merge_types(kind, each.column.type) if kind is not None else None
    return kind or pa.null()


def _key_fields(known: pa.Schema, records: bool) -> pa.Schema | None:
    if kafka.KEY not in known.names:
        return None
    kind = known.field(kafka.KEY).type
    return pa.schema(kind.fields) if records and pa.types.is_struct(kind) else pa.schema([pa.field(VALUE, kind)])
