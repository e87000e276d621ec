"""Converts between messages and rows of Arrow batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

import pyarrow as pa

from frazil.errors import InvalidMessage
from frazil.log.schema.schema import conform

MESSAGE = pa.schema(
    [
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("publish_time", pa.timestamp("ms", "UTC")),
        pa.field("producer_name", pa.string()),
        pa.field("attributes", pa.map_(pa.string(), pa.string())),
        pa.field("routing_key", pa.string()),
        pa.field("schema_id", pa.int64()),
        pa.field("schema_version", pa.int64()),
        pa.field("producer_id", pa.string()),
        pa.field("sequence", pa.int64()),
    ]
)
"""A topic has these columns. `producer_id` and `sequence` are set for idempotent producers only."""

LARGEST = 2**63 - 1
"""Larger numbers do not fit Iceberg's columns, which are signed."""


@dataclass(frozen=True, slots=True)
class Message:
    payload: bytes
    publish_time_ms: int | None = None
    """None stands for the time of arrival."""
    producer_name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    routing_key: str | None = None
    schema_id: int | None = None
    schema_version: int | None = None


class MessageRun(NamedTuple):
    """Has successive messages of one partition, with the columns of `MESSAGE`. The first has the offset `first`."""

    partition: int
    first: int
    batch: pa.RecordBatch
    epoch: str

    @property
    def end(self) -> int:
        return self.first + int(self.batch.num_rows)


def to_batch(messages: Sequence[Message], now_ms: int) -> pa.RecordBatch:
    """Converts messages to rows. Those without a publish time get `now_ms`."""
    try:
        if len(messages) == 1:
            return _single_row_batch(messages[0], now_ms)
        rows = pa.array([_row(message, now_ms) for message in messages], _ROW)
    except (pa.ArrowException, OverflowError, ValueError, TypeError, AttributeError, StructError) as error:
        raise _problem(messages, error) from error
    columns = rows.flatten()
    if missing := columns[0].null_count:
        raise InvalidMessage(f"{missing} of {len(messages)} messages have no payload. It may be empty, but not None.")
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE)


_ROW = pa.struct(list(MESSAGE))
_PAYLOAD, _TIME, _NAME, _ATTRIBUTES, _KEY, _ID, _VERSION, _, _ = MESSAGE.types
_OFFSETS, _INT64 = Struct("<ii").pack, Struct("<q").pack
_NULLS = [pa.nulls(1, each) for each in MESSAGE.types]
_NO_ATTRIBUTES = pa.array([[]], _ATTRIBUTES)


@lru_cache(1000)
def _name(name: str) -> pa.Array:
    return pa.array([name], _NAME)


def _single_row_batch(message: Message, now_ms: int) -> pa.RecordBatch:
    """Converts one message in a third of the time, because most of its columns are made once for all."""
    payload = message.payload
    if not isinstance(payload, bytes):
        raise InvalidMessage(f"The payload of a message is bytes, perhaps none, but not {type(payload).__name__}.")
    time = now_ms if message.publish_time_ms is None else message.publish_time_ms
    key, number, version = message.routing_key, message.schema_id, message.schema_version
    columns = [
        pa.Array.from_buffers(_PAYLOAD, 1, [None, pa.py_buffer(_OFFSETS(0, len(payload))), pa.py_buffer(payload)]),
        pa.Array.from_buffers(_TIME, 1, [None, pa.py_buffer(_INT64(time))]),
        _name(message.producer_name),
        pa.array([list(message.attributes.items())], _ATTRIBUTES) if message.attributes else _NO_ATTRIBUTES,
        _NULLS[4] if key is None else pa.array([key], _KEY),
        _NULLS[5] if number is None else pa.array([number], _ID),
        _NULLS[6] if version is None else pa.array([version], _VERSION),
        *_NULLS[7:],
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE)


def _row(message: Message, now_ms: int) -> tuple[object, ...]:
    return (
        message.payload,
        now_ms if message.publish_time_ms is None else message.publish_time_ms,
        message.producer_name,
        list(message.attributes.items()),
        message.routing_key,
        message.schema_id,
        message.schema_version,
        None,
        None,
    )


def _problem(messages: Sequence[Message], error: Exception) -> InvalidMessage:
    """Says which message cannot be stored, and why."""
    for number, message in enumerate(messages, 1):
        for name in ("schema_id", "schema_version", "publish_time_ms"):
            value = getattr(message, name)
            if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
                return InvalidMessage(
                    f"Message {number} of {len(messages)}: {name} is {value}, and the largest that can be stored is "
                    f"{LARGEST}."
                )
    return InvalidMessage(f"These {len(messages)} messages cannot be stored: {error}.")


def from_batch(batch: pa.RecordBatch) -> list[Message]:
    """Converts rows to messages."""
    column = {name: batch.column(name) for name in MESSAGE.names[:7]}
    times = column["publish_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return [
        Message(payload, time, producer or "", dict(attributes or ()), key, schema_id, schema_version)
        for payload, time, producer, attributes, key, schema_id, schema_version in zip(
            column["payload"].to_pylist(),
            times.to_pylist(),
            column["producer_name"].to_pylist(),
            column["attributes"].to_pylist(),
            column["routing_key"].to_pylist(),
            column["schema_id"].to_pylist(),
            column["schema_version"].to_pylist(),
            strict=True,
        )
    ]


def conform_messages(batch: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """Converts a caller's batch to rows of a topic. Columns may be missing, and messages without a time get
    `now_ms`."""
    if batch.schema.equals(MESSAGE) and not batch.column("publish_time").null_count:
        return batch
    check_columns(batch.schema)
    try:
        whole = conform(batch, MESSAGE)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InvalidMessage(f"These rows are no messages: {error}.") from error
    now = pa.scalar(now_ms, pa.int64()).cast(MESSAGE.field("publish_time").type)
    times = whole.column("publish_time").fill_null(now)
    return whole.set_column(1, MESSAGE.field(1), times)


def check_columns(schema: pa.Schema) -> None:
    """Raises `InvalidMessage` for columns that are unknown or repeated, or if there is no payload."""
    if unknown := [name for name in schema.names if name not in MESSAGE.names]:
        raise InvalidMessage(f"Messages have no column {unknown[0]!r}; there are: {', '.join(MESSAGE.names)}.")
    if len(set(schema.names)) < len(schema.names):
        raise InvalidMessage("The same column comes twice.")
    if "payload" not in schema.names:
        raise InvalidMessage("Messages need a column 'payload' of bytes.")


def with_producer(batch: pa.RecordBatch, producer: str, sequence: int) -> pa.RecordBatch:
    """Adds the id and the sequence number of an idempotent producer to the rows."""
    count = len(batch)
    columns = [*batch.columns[:7], pa.repeat(pa.scalar(producer), count), pa.repeat(pa.scalar(sequence), count)]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE)
