"""Decodes the format `json`, which has no registry: columns have the types that the settings or the table give them,
others are inferred."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.types as types

from frazil.config.sections.log import MOST_COLUMNS
from frazil.errors import ConfigError
from frazil.formats.column_names import VALUE
from frazil.formats.json.batch_reader import BatchReader
from frazil.formats.json.field_names import check_names
from frazil.formats.json.scalars import Misfit
from frazil.formats.json.type_inference import nested_types, plain, settle
from frazil.formats.json.valid_texts import valid_texts
from frazil.formats.type_names import parse_field
from frazil.formats.values import DecodedColumn, DecodedValues, Payloads


class JsonDecoder:
    """Decodes JSON values. The types of configured and of known columns are settled; other fields become columns as
    they are found."""

    def __init__(self, columns: Mapping[str, str], *, records: bool = True, most_columns: int = MOST_COLUMNS) -> None:
        """With `records`, values are objects, and each of their fields is a column. Without it, values are any
        JSON."""
        self.records = records
        self._most_columns = most_columns
        self._columns = dict(columns)
        self._given = pa.struct([_given(name, kind) for name, kind in self._columns.items()])
        try:
            check_names(self._given)
        except Misfit as error:
            raise ConfigError(f"Columns of the format `json`: {error}.") from error

    def kinds(self) -> Iterable[pa.DataType]:
        return [self._given] if self.records and self._columns else []

    def survey(self, payloads: Payloads, known: pa.Schema | None) -> Iterable[pa.DataType]:
        return survey_json(payloads.values, self._given, known, self._most_columns, records=self.records)

    def decode(self, payloads: Payloads, known: pa.Schema | None) -> DecodedValues:
        return decode_json(payloads.values, self._given, known, self._most_columns, records=self.records)


def survey_json(
    values: pa.Array, given: pa.DataType, known: pa.Schema | None, most_columns: int, *, records: bool
) -> Iterable[pa.DataType]:
    reader = BatchReader(settle(given.fields, known or []), most_columns, objects=records)
    texts, _ = valid_texts(values, objects=records)
    reader.learn(texts)
    return [_of_column(reader.known)] if not records else [reader.known]


def decode_json(
    values: pa.Array, given: pa.DataType, known: pa.Schema | None, most_columns: int, *, records: bool
) -> DecodedValues:
    """Decodes the values. `given` is the struct of columns whose types are configured; without `records` it is empty,
    or has the field `value` only."""
    texts, faults = valid_texts(values, objects=records)
    batch = BatchReader(settle(given.fields, known or []), most_columns, objects=records).read(texts)
    column = batch.column
    if not records:
        at = column.type.get_field_index(VALUE)
        column = column.field(at) if at >= 0 else pa.nulls(len(column))
    return DecodedValues([DecodedColumn(batch.positions, column)] if len(column) else [], faults | batch.faults)


def _of_column(kind: pa.DataType) -> pa.DataType:
    at = kind.get_field_index(VALUE)
    return kind.field(at).type if at >= 0 else pa.null()


def _given(name: str, text: str) -> pa.Field:
    try:
        kind = plain(parse_field(name, text).type)
    except ValueError as error:
        raise ConfigError(f"Column {name!r} of the format `json`: {error}.") from error
    for part in nested_types(kind):
        if types.is_null(part) or types.is_union(part) or types.is_interval(part):
            raise ConfigError(f"Column {name!r} of the format `json`: there is no JSON for the type {part}.")
        if types.is_map(part) and not types.is_string(part.key_type):
            raise ConfigError(f"Column {name!r} of the format `json`: the keys of {part} are not strings.")
    return pa.field(name, kind)
