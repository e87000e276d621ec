"""Decodes Protobuf in the wire format of a schema registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from ptars import PtarsConfig
from ptars._lib import ProtoRegistry

from frazil.config.sections.log import MOST_COLUMNS
from frazil.errors import SchemaNotRegistered, SchemaUnsupported
from frazil.formats.columns import check_kind
from frazil.formats.fault_isolation import isolate
from frazil.formats.protobuf.columns import ColumnConversion, columns_of
from frazil.formats.protobuf.compiling import compile_files
from frazil.formats.protobuf.message_indexes import FIRST, by_message
from frazil.formats.protobuf.schema_limits import check_size
from frazil.formats.registry.client import Registry
from frazil.formats.registry.schema import RegisteredSchema
from frazil.formats.registry.wire import Group, Ints, SchemaId, cut, gather
from frazil.formats.values import DecodedColumn, DecodedValues, Payloads, Positions
from frazil.native import faults_as_errors

LARGE_BYTES = 8192
"""Payloads above this size are checked for deep nesting first: each level takes at least a byte of the payload, and
some 80 bytes of the decoder's stack."""

_CONFIG = PtarsConfig(enum_repr="string", list_value_nullable=True, map_value_nullable=True)
"""An entry of a map may come without its value, which is then null."""


@dataclass(frozen=True)
class ProtobufDecoder:
    """Decodes each value as the message type that it names; a batch has one column for each message type of each
    schema.

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
            # If a file has several messages, records may be any of them.
            if newest is None or len(compile_files(newest).main.message_type) != 1:
                return ()
            return (message_of(newest, FIRST, self.most_columns).kind,)
        except (SchemaNotRegistered, SchemaUnsupported):
            return ()

    def survey(self, payloads: Payloads, known: pa.Schema | None) -> Iterable[pa.DataType]:
        return [message.kind for message, _, _, _ in self._messages(payloads, {})]

    def decode(self, payloads: Payloads, known: pa.Schema | None) -> DecodedValues:
        faults: dict[int, str] = {}
        columns: list[DecodedColumn] = []
        for message, group, chosen, starts in self._messages(payloads, faults):
            places = group.places[chosen]
            column, good, wrong = message.decode(gather(group.data, starts, group.ends[chosen]))
            faults.update({int(places[place]): reason for place, reason in wrong.items()})
            if len(good):
                columns.append(DecodedColumn(places[good], column))
        return DecodedValues(columns, faults)

    def _messages(
        self, payloads: Payloads, faults: dict[int, str]
    ) -> Iterator[tuple[MessageDecoder, Group, Ints, Ints]]:
        """Yields each message type with its payloads: their group, which of the group they are, and where they
        begin."""
        groups, wrong = cut(payloads)
        faults.update(wrong)
        for group in groups:
            for path, chosen, starts in by_message(group, faults):
                message = self._message(group.schema, path)
                if isinstance(message, str):
                    faults.update(dict.fromkeys(group.places[chosen].tolist(), message))
                else:
                    yield message, group, chosen, starts

    def _message(self, schema: SchemaId, path: tuple[int, ...]) -> MessageDecoder | str:
        """Returns what decodes such records, or the reason why nothing can."""
        try:
            return message_of(self.registry.schema(schema), path, self.most_columns)
        except SchemaNotRegistered as error:
            return str(error)
        except SchemaUnsupported as error:
            return f"schema {schema}: {error}"


@dataclass(frozen=True)
class MessageDecoder:
    columns: ColumnConversion
    handler: Any
    cls: Any
    """The message class of the Protobuf runtime."""

    @property
    def kind(self) -> pa.DataType:
        return self.columns.kind

    def decode(self, payloads: pa.Array) -> tuple[pa.Array, Positions, dict[int, str]]:
        """Returns the decoded messages, the positions of their payloads, and the reasons why others cannot be
        decoded."""
        broken = self._broken_large(payloads)
        kept = np.delete(np.arange(len(payloads)), list(broken))
        good, decoded, wrong = isolate(payloads.take(pa.array(kept)) if broken else payloads, self._structs)
        good, faults = kept[good], broken | {int(kept[at]): why for at, why in wrong.items()}
        if decoded is None:
            return None, good, faults
        column, wrong = self.columns.convert(decoded)
        if wrong:
            faults |= {int(good[at]): f"field {why}" for at, why in wrong.items()}
            kept = np.delete(np.arange(len(good)), list(wrong))
            column, good = column.take(pa.array(kept)), good[kept]
        return column, good, faults

    def _broken_large(self, payloads: pa.Array) -> dict[int, str]:
        """Returns the large payloads that the Protobuf runtime refuses. Only large ones can have groups nested so
        deeply that the native decoder would overflow its stack."""
        broken = {}
        for place in np.flatnonzero(pc.binary_length(payloads).to_numpy() > LARGE_BYTES).tolist():
            try:
                self.cls.FromString(payloads[place].as_py())
            except DecodeError as error:
                broken[place] = f"failed to decode Protobuf message: {error}"
        return broken

    def _structs(self, payloads: pa.Array) -> pa.Array:
        with faults_as_errors():
            return self.handler.array_to_record_batch(payloads).to_struct_array()


@lru_cache(maxsize=4096)
def message_of(schema: RegisteredSchema, path: tuple[int, ...], most_columns: int = MOST_COLUMNS) -> MessageDecoder:
    files = compile_files(schema)
    described = files.message(path)
    if described is None:
        raise SchemaUnsupported(f"it has no message at the indexes {list(path)}")
    check_size(described)
    handler = ProtoRegistry(list(files.decoded)).create_for_message(described.full_name, _CONFIG)
    columns = columns_of(described, pa.struct(list(handler.schema())), files.pool)
    check_kind(columns.kind, most_columns)
    return MessageDecoder(columns, handler, GetMessageClass(described))
