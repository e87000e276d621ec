"""An Arrow stream that somebody sent, as one batch of messages.

What is sent is checked before it is used: offsets may point anywhere, and compression, dictionaries, views and
columns of nothing let few bytes stand for very many.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.types as types

from frazil.errors import InvalidMessage
from frazil.topics.messages import MESSAGE, check_columns

MOST_BATCHES = 10_000
"""In a stream; each costs time, even if nothing is in it."""
ROW_BYTES = 4
"""Of the stream, for each message in it, must there be at least: where its payload ends is a number of that size."""

_RECORD_BATCH = 3
"""Type of a message's header, in Arrow's format."""
_HEADER_TYPE, _HEADER = 1, 2
_COMPRESSION = 3
"""Places in the tables `Message` and `RecordBatch` of Arrow's format."""


def parse(body: bytes) -> pa.RecordBatch:
    try:
        return _parse(body)
    except (pa.ArrowException, struct.error, ValueError, TypeError, OSError, EOFError) as error:
        raise InvalidMessage(
            f"The body is not an Arrow stream that can be read: {str(error).rstrip('.')}."
        ) from error


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
    """Arrow reads whatever message it is given as a schema, and dies of another one. Its reader of streams asks."""
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
    """Whether values of one type become those of the other one by one, none larger than before."""
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
    """Arrow's own reader does not tell; it has checked the metadata, so that its places are right."""
    data = message.metadata
    root = _Table(data, struct.unpack_from("<I", data, 0)[0])
    kind = root.field(_HEADER_TYPE)
    header = root.field(_HEADER)
    if kind is None or header is None or data[kind] != _RECORD_BATCH:
        return False
    batch = _Table(data, header + struct.unpack_from("<I", data, header)[0])
    return batch.field(_COMPRESSION) is not None


class _Table:
    """A table of a flatbuffer: where its fields are."""

    def __init__(self, data: pa.Buffer, place: int) -> None:
        self._data = data
        self._place = place
        self._fields = place - struct.unpack_from("<i", data, place)[0]
        self._size = struct.unpack_from("<H", data, self._fields)[0]

    def field(self, number: int) -> int | None:
        """None where it is not set."""
        at = 4 + 2 * number
        if at + 2 > self._size:
            return None
        offset = struct.unpack_from("<H", self._data, self._fields + at)[0]
        return self._place + offset if offset else None
