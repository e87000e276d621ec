"""Parses an Arrow stream from a request body into one batch of messages.

The stream is checked before it is used. Its offsets may point anywhere, and compression, dictionaries, views and null
columns can make a few bytes stand for very many.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.types as types

from frazil.errors import InvalidMessage, MemoryAlignment
from frazil.formats.arrow_ipc import is_misaligned
from frazil.topics.messages import MESSAGE, check_columns

MOST_BATCHES = 10_000
"""A stream has at most this many batches, because each costs time even if it is empty."""
ROW_BYTES = 4
"""A stream must have at least this many bytes for each message, because the offset of each payload takes that
many."""

_RECORD_BATCH = 3
"""This is the header type of a record batch in Arrow's format."""
_HEADER_TYPE, _HEADER = 1, 2
_COMPRESSION = 3
"""These are field numbers in the tables `Message` and `RecordBatch` of Arrow's format."""


def parse(body: bytes) -> pa.RecordBatch:
    try:
        return _parse(body)
    except (pa.ArrowException, struct.error, ValueError, TypeError, OSError, EOFError) as error:
        kind = MemoryAlignment if is_misaligned(error) else InvalidMessage
        raise kind(f"The body is not an Arrow stream that can be read: {str(error).rstrip('.')}.") from error


def _parse(body: bytes) -> pa.RecordBatch:
    source = pa.BufferReader(body)
    schema = _schema(pa.ipc.read_message(source), body)
    _check_columns(schema)
    batches: list[pa.RecordBatch] = []
    rows = 0
    for message in _messages(source):
        if message.type != "record batch":
            raise InvalidMessage(f"An Arrow stream of messages has no {message.type}: send plain columns.")
        if _compressed(message):
            raise InvalidMessage("The Arrow stream is compressed: send it as it is.")
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
        rows += batch.num_rows
        if rows * ROW_BYTES > len(body):
            raise InvalidMessage(
                f"The Arrow stream of {len(body):,} bytes says that it has {rows:,} messages or more."
            )
        batches.append(batch)
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)


def _schema(first: pa.Message, body: bytes) -> pa.Schema:
    """Reads the schema. Arrow crashes when it takes another message for a schema, so the type is checked first."""
    if first.type != "schema":
        raise InvalidMessage(f"An Arrow stream begins with a schema, not with a {first.type}.")
    with pa.ipc.open_stream(pa.BufferReader(body)) as stream:
        return stream.schema


def _messages(source: pa.BufferReader) -> list[pa.Message]:
    found: list[pa.Message] = []
    while True:
        try:
            found.append(pa.ipc.read_message(source))
        except EOFError:
            return found
        if len(found) > MOST_BATCHES:
            raise InvalidMessage(f"The Arrow stream has more than {MOST_BATCHES:,} batches: send larger ones.")


def _check_columns(schema: pa.Schema) -> None:
    check_columns(schema)
    for field in schema:
        if not _plain(field.type, MESSAGE.field(field.name).type):
            wanted = MESSAGE.field(field.name).type
            raise InvalidMessage(f"Column {field.name!r} is of type {field.type}; messages have {wanted}.")


def _plain(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Returns whether values of one type convert to the other one by one, without growing."""
    if types.is_null(given) or given == wanted:
        return True
    if types.is_binary(wanted) or types.is_string(wanted):
        return any(
            is_kind(given)
            for is_kind in (types.is_binary, types.is_large_binary, types.is_string, types.is_large_string)
        )
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(given))
    if types.is_integer(wanted):
        return bool(types.is_integer(given))
    return bool(
        types.is_map(given) and _plain(given.key_type, wanted.key_type) and _plain(given.item_type, wanted.item_type)
    )


def _compressed(message: pa.Message) -> bool:
    """Returns whether a batch is compressed, which Arrow's reader does not say. Arrow has validated the metadata
    before."""
    data = message.metadata
    root = _Table(data, struct.unpack_from("<I", data, 0)[0])
    kind = root.field(_HEADER_TYPE)
    header = root.field(_HEADER)
    if kind is None or header is None or data[kind] != _RECORD_BATCH:
        return False
    batch = _Table(data, header + struct.unpack_from("<I", data, header)[0])
    return batch.field(_COMPRESSION) is not None


class _Table:
    """Finds the fields of a flatbuffer table."""

    def __init__(self, data: pa.Buffer, place: int) -> None:
        self._data = data
        self._place = place
        self._fields = place - struct.unpack_from("<i", data, place)[0]
        self._size = struct.unpack_from("<H", data, self._fields)[0]

    def field(self, number: int) -> int | None:
        """Returns None where the field is not set."""
        at = 4 + 2 * number
        if at + 2 > self._size:
            return None
        offset = struct.unpack_from("<H", self._data, self._fields + at)[0]
        return self._place + offset if offset else None
