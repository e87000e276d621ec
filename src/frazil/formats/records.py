"""Whole records: key and value, each decoded by its format, beside what Kafka knows of the record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats import kafka
from frazil.formats.columns import columns_of
from frazil.formats.decoding import Decoded, Piece
from frazil.formats.joining import joined_schema, joined_type
from frazil.formats.memo import BySchema
from frazil.formats.names import VALUE, column_of, fields_of
from frazil.formats.values import DecodedValues, Part, Payloads, Places, ValueDecoder

KEY_SCHEMA_ID = "__key_schema_id"
VALUE_SCHEMA_ID = "__value_schema_id"
"""Headers in which newer producers say which schema the key and the value have."""

_KEPT = (kafka.HEADERS, kafka.TIMESTAMP, kafka.TIMESTAMP_TYPE, kafka.PARTITION, kafka.OFFSET)


class RecordDecoder:
    """A row is the key, what Kafka adds, and then the fields of the value; or `value`, if the value is no record.

    Where values are records as a rule, `_kafka_tombstone` is true for a record that has no value; it has no other
    columns then.
    """

    def __init__(self, key: ValueDecoder, value: ValueDecoder) -> None:
        self.key = key
        self.value = value
        self._known_of = BySchema(self._split)

    def columns(self) -> pa.Schema:
        return self._rows(self.key.kinds(), self.value.kinds())

    def survey(self, batch: pa.RecordBatch, known: pa.Schema | None = None) -> pa.Schema:
        keys, values = _payloads(batch)
        known_keys, known_values = self._known(known)
        return self._rows(self.key.survey(keys, known_keys), self.value.survey(values, known_values))

    def decode(self, batch: pa.RecordBatch, known: pa.Schema | None = None) -> Decoded:
        key_payloads, value_payloads = _payloads(batch)
        known_keys, known_values = self._known(known)
        keys = self.key.decode(key_payloads, known_keys)
        values = self.value.decode(value_payloads, known_values)
        faults = {place: f"value: {reason}" for place, reason in values.faults.items()}
        faults |= {place: f"key: {reason}" for place, reason in keys.faults.items()}
        nobody = _type_of_all(keys.parts)
        pieces = [
            Piece(pa.array(places), self._piece(batch, places, key, value, nobody))
            for places, key, value in _combined(len(batch), keys, values, faults)
        ]
        return Decoded(pieces, dict(sorted(faults.items())))

    def _piece(
        self, batch: pa.RecordBatch, places: Places, key: Part | None, value: Part | None, nobody: pa.DataType
    ) -> pa.RecordBatch:
        chosen = batch.select(_KEPT)
        if len(places) < len(batch):
            chosen = chosen.take(pa.array(places))
        names = [kafka.KEY, *_KEPT]
        columns = [pa.nulls(len(places), nobody) if key is None else _at(key, places), *chosen.columns]
        if self.value.records:
            names.append(kafka.TOMBSTONE)
            columns.append(pa.repeat(pa.scalar(value is None), len(places)))
        if value is not None:
            column = _at(value, places)
            if pa.types.is_struct(column.type):
                names += [column_of(field.name) for field in column.type]
                columns += column.flatten()
            else:
                names.append(VALUE)
                columns.append(column)
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _known(self, rows: pa.Schema | None) -> tuple[pa.Schema | None, pa.Schema | None]:
        """What is known of keys and of values, by what is known of rows."""
        return (None, None) if rows is None else self._known_of[rows]

    def _split(self, rows: pa.Schema) -> tuple[pa.Schema | None, pa.Schema]:
        return _key_fields(rows, self.key.records), fields_of(rows)

    def _rows(self, keys: Iterable[pa.DataType], values: Iterable[pa.DataType]) -> pa.Schema:
        """The columns of rows whose keys and values have these types."""
        own = [kafka.SCHEMA.field(name) for name in _KEPT]
        if self.value.records:
            own.append(pa.field(kafka.TOMBSTONE, pa.bool_()))
        named = [pa.schema([pa.field(kafka.KEY, kind)]) for kind in (pa.null(), *keys)]
        return joined_schema([*named, pa.schema(own), *map(columns_of, values)])


def _payloads(batch: pa.RecordBatch) -> tuple[Payloads, Payloads]:
    headers = batch.column(kafka.HEADERS)
    return (
        Payloads(batch.column(kafka.KEY), _from_header(headers, KEY_SCHEMA_ID)),
        Payloads(batch.column(kafka.VALUE), _from_header(headers, VALUE_SCHEMA_ID)),
    )


def _from_header(headers: pa.Array, name: str) -> pa.Array | None:
    """The value of each record's last header of this name; None if no record has one."""
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
) -> Iterator[tuple[Places, Part | None, Part | None]]:
    """The places of each pair of a part of the keys and one of the values; None stands for nulls."""
    if not faults and all(len(each.parts) == 1 and len(each.parts[0].places) == count for each in (keys, values)):
        yield keys.parts[0].places, keys.parts[0], values.parts[0]
        return
    pair = _part_numbers(count, keys.parts) * (len(values.parts) + 1) + _part_numbers(count, values.parts)
    good = np.ones(count, np.bool_)
    good[list(faults)] = False
    places = np.flatnonzero(good)
    pair = pair[places]
    for number in np.unique(pair).tolist():
        key, value = divmod(number, len(values.parts) + 1)
        yield (
            places[pair == number],
            keys.parts[key - 1] if key else None,
            values.parts[value - 1] if value else None,
        )


def _part_numbers(count: int, parts: list[Part]) -> Places:
    """Which part each place is in, from 1; 0 for none."""
    numbers = np.zeros(count, np.int64)
    for number, part in enumerate(parts, 1):
        numbers[part.places] = number
    return numbers


def _at(part: Part, places: Places) -> pa.Array:
    if len(places) == len(part.places):
        return part.column
    return part.column.take(pa.array(np.searchsorted(part.places, places)))


def _type_of_all(parts: list[Part]) -> pa.DataType:
    """The type for the null keys: that of the others, if they agree."""
    kind: pa.DataType | None = pa.null()
    for part in parts:
        kind = joined_type(kind, part.column.type) if kind is not None else None
    return kind or pa.null()


def _key_fields(known: pa.Schema, records: bool) -> pa.Schema | None:
    if kafka.KEY not in known.names:
        return None
    kind = known.field(kafka.KEY).type
    return pa.schema(kind.fields) if records and pa.types.is_struct(kind) else pa.schema([pa.field(VALUE, kind)])
