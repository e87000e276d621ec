"""Decodes Avro in the wire format of a schema registry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from frazil.config.sections.log import MOST_COLUMNS
from frazil.errors import SchemaNotRegistered, SchemaUnsupported
from frazil.formats.avro.decoding import decode_records
from frazil.formats.avro.nodes import Node
from frazil.formats.avro.schema import compile_schema
from frazil.formats.columns import check_kind
from frazil.formats.registry.client import Registry
from frazil.formats.registry.schema import RegisteredSchema
from frazil.formats.registry.wire import SchemaId, cut
from frazil.formats.values import DecodedColumn, DecodedValues, Payloads


@dataclass(frozen=True)
class AvroDecoder:
    """Decodes each value with the schema that it was written with; a batch has one column for each schema.

    A schema that no table can hold, or that the registry does not have, is a fault of the records that name it.
    """

    registry: Registry
    subject: str
    """The subject whose newest schema says which columns there will be."""
    most_columns: int = MOST_COLUMNS
    records = True

    def kinds(self) -> Iterable[pa.DataType]:
        try:
            newest = self.registry.newest(self.subject)
            return () if newest is None else (_node(newest, self.most_columns).kind,)
        except (SchemaNotRegistered, SchemaUnsupported):
            return ()

    def survey(self, payloads: Payloads, known: pa.Schema | None) -> Iterable[pa.DataType]:
        groups, _ = cut(payloads)
        nodes = (self._node(group.schema) for group in groups)
        return [node.kind for node in nodes if isinstance(node, Node)]

    def decode(self, payloads: Payloads, known: pa.Schema | None) -> DecodedValues:
        groups, faults = cut(payloads)
        columns: list[DecodedColumn] = []
        for group in groups:
            node = self._node(group.schema)
            if isinstance(node, str):
                faults.update(dict.fromkeys(group.places.tolist(), node))
                continue
            found = decode_records(node, group.data, group.starts, group.ends)
            faults.update({int(group.places[place]): reason for place, reason in found.faults.items()})
            columns.append(DecodedColumn(np.delete(group.places, list(found.faults)), found.values))
        return DecodedValues(columns, faults)

    def _node(self, schema: SchemaId) -> Node | str:
        """Returns what decodes records of this schema, or the reason why nothing can."""
        try:
            return _node(self.registry.schema(schema), self.most_columns)
        except SchemaNotRegistered as error:
            return str(error)
        except SchemaUnsupported as error:
            return f"schema {schema}: {error}"


@lru_cache(maxsize=4096)
def _node(schema: RegisteredSchema, most_columns: int) -> Node:
    if schema.kind != "AVRO":
        raise SchemaUnsupported(f"it is {schema.kind}, not Avro")
    node = compile_schema(schema)
    check_kind(node.kind, most_columns)
    return node
