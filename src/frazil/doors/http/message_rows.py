"""Formats messages as JSON objects or as an Arrow table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.json_rows import row_texts
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.topics.messages import MESSAGE

ROWS = pa.schema([*MESSAGE, pa.field(PARTITION, pa.int32()), pa.field(OFFSET, pa.int64())])
"""These are the columns of the topic's table."""


class MessageRows(Protocol):
    """Has neighbouring messages of a partition, from the offset `first` on."""

    @property
    def partition(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def batch(self) -> pa.RecordBatch: ...


def message_texts(records: MessageRows) -> pa.Array:
    """Returns each message as a JSON object. It has `payload` if that is text, else `payload_base64`; empty fields
    are left out."""
    batch, count = records.batch, len(records.batch)
    text, encoded = _payloads(batch.column("payload"))
    producer, attributes = batch.column("producer_name"), batch.column("attributes")
    has_attributes = pa.array(np.diff(attributes.offsets.to_numpy()) > 0)
    columns = {
        "partition": pa.repeat(pa.scalar(records.partition, pa.int32()), count),
        "offset": _offsets(records),
        "publish_time": batch.column("publish_time"),
        "key": batch.column("routing_key"),
        "payload": text,
        "payload_base64": encoded,
        "attributes": _only(attributes, has_attributes),
        "producer_name": _only(producer, pc.fill_null(pc.greater(pc.binary_length(producer), 0), False)),
        **{name: batch.column(name) for name in ("schema_id", "schema_version", "producer_id", "sequence")},
    }
    return row_texts(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))


def join_texts(texts: pa.Array) -> bytes:
    """Concatenates the texts."""
    if not len(texts):
        return b""
    everything = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return bytes(pc.binary_join(everything, "")[0].as_buffer())


def table_of(runs: Sequence[MessageRows]) -> pa.Table:
    batches = []
    for run in runs:
        partition = pa.repeat(pa.scalar(run.partition, pa.int32()), len(run.batch))
        batches.append(
            pa.RecordBatch.from_arrays([*run.batch.columns, partition, _offsets(run)], schema=ROWS),
        )
    return pa.Table.from_batches(batches, ROWS)


def _offsets(records: MessageRows) -> pa.Array:
    return pa.array(np.arange(records.first, records.end, dtype=np.int64))


def _only(column: pa.Array, mask: pa.Array) -> pa.Array:
    """Makes values null where the mask is false."""
    return column.take(pc.if_else(mask, pa.array(np.arange(len(column))), None))


def _payloads(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Splits payloads into those that are text and those that are not. Each is null where the other is set."""
    try:
        return column.cast(pa.string()), pa.nulls(len(column), pa.binary())
    except pa.ArrowInvalid:
        text = pa.array([_text(payload) for payload in column.to_pylist()], pa.string())
        return text, _only(column, text.is_null())


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
