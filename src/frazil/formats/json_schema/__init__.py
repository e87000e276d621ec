"""Decodes JSON in the wire format of a schema registry; a JSON Schema gives the types of columns.

Only types are taken from a schema. Whether values keep within its limits and patterns is up to the producers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as types

from frazil.config.sections.log import MOST_COLUMNS
from frazil.errors import SchemaNotRegistered, SchemaUnsupported
from frazil.formats.column_names import VALUE
from frazil.formats.columns import check_kind
from frazil.formats.json import decode_json, survey_json
from frazil.formats.json_schema.schema_types import type_of
from frazil.formats.registry.client import Registry
from frazil.formats.registry.wire import Group, SchemaId, cut, gather
from frazil.formats.values import DecodedColumn, DecodedValues, Payloads


@dataclass(frozen=True)
class JsonSchemaDecoder:
    """Decodes each value with the schema that it was written with; a batch has one column for each schema.

    A schema that cannot be used, or that the registry does not have, is a fault of the records that name it.
    """

    registry: Registry
    subject: str
    """The subject whose newest schema says which columns there will be."""
    most_columns: int = MOST_COLUMNS
    records = True

    def kinds(self) -> Iterable[pa.DataType]:
        try:
            newest = self.registry.newest(self.subject)
            kind = None if newest is None else type_of(newest)
            if kind is not None:
                check_kind(kind, self.most_columns)
        except (SchemaNotRegistered, SchemaUnsupported):
            return ()
        return () if kind is None else (kind,)

    def survey(self, payloads: Payloads, known: pa.Schema | None) -> Iterable[pa.DataType]:
        for group in cut(payloads)[0]:
            given = self._given(group.schema)
            if isinstance(given, _SchemaColumns):
                yield from survey_json(
                    _values(group), given.columns, given.of(known), self.most_columns, records=given.records
                )

    def decode(self, payloads: Payloads, known: pa.Schema | None) -> DecodedValues:
        groups, faults = cut(payloads)
        columns: list[DecodedColumn] = []
        for group in groups:
            given = self._given(group.schema)
            if isinstance(given, str):
                faults.update(dict.fromkeys(group.places.tolist(), given))
                continue
            found = decode_json(
                _values(group), given.columns, given.of(known), self.most_columns, records=given.records
            )
            faults.update({int(group.places[at]): reason for at, reason in found.faults.items()})
            columns += [DecodedColumn(group.places[each.positions], each.column) for each in found.columns]
        return DecodedValues(columns, faults)

    def _given(self, schema: SchemaId) -> _SchemaColumns | str:
        """Returns the columns of the schema, or the reason why it cannot be used."""
        try:
            kind = type_of(self.registry.schema(schema))
            if kind is not None:
                check_kind(kind, self.most_columns)
        except SchemaNotRegistered as error:
            return str(error)
        except SchemaUnsupported as error:
            return f"schema {schema}: {error}"
        if kind is None or types.is_struct(kind):
            return _SchemaColumns(kind or pa.struct([]), records=True)
        return _SchemaColumns(pa.struct([pa.field(VALUE, kind)]), records=False)


class _SchemaColumns(NamedTuple):
    columns: pa.DataType
    """The struct of the columns."""
    records: bool

    def of(self, known: pa.Schema | None) -> pa.Schema | None:
        """Returns those of the settled columns that values of this schema can have."""
        return (
            known if known is None or self.records else pa.schema([field for field in known if field.name == VALUE])
        )


def _values(group: Group) -> pa.Array:
    return gather(group.data, group.starts, group.ends)
