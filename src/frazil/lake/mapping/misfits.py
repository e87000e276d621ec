"""Misfits: rows of a topic that cannot become rows of its table, with the reason and the complete row.

Nothing here runs for batches that fit. In other batches the misfits are found by halving each column until what fails
is a single row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats import kafka
from frazil.lake.mapping.conversions import Conversion
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.schema.schema import without_dictionaries

_SHOWN_CHARACTERS = 80
_SCHEMA = pa.schema(
    [
        (OFFSET, pa.int64()),
        ("error", pa.string()),
        ("raw", pa.binary()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        (kafka.PARTITION, pa.int32()),
        (kafka.OFFSET, pa.int64()),
    ]
)
_OF_KAFKA = {"key": kafka.KEY, "value": kafka.VALUE, kafka.PARTITION: kafka.PARTITION, kafka.OFFSET: kafka.OFFSET}
"""The columns that a record from Kafka has besides the complete row. They are null for other records."""

FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError)
"""The errors that a conversion raises when values do not fit."""


class Misfits(NamedTuple):
    rows: pa.Table
    """The columns are `_offset`, `error`, `raw` (the row as an Arrow IPC stream, with all columns as in the log), and
    for records from Kafka their key, value, partition and offset.
    """

    @classmethod
    def of(cls, batch: pa.RecordBatch, offsets: pa.Array, errors: Mapping[int, str]) -> Misfits:
        places = sorted(errors)
        chosen = pa.array(places, pa.int64())
        shown = _OF_KAFKA if kafka.is_kafka(batch.schema) else {}
        columns = {
            OFFSET: offsets.take(chosen),
            "error": pa.array([errors[place] for place in places], pa.string()),
            "raw": pa.array(
                [row_to_ipc(without_dictionaries(batch.slice(place, 1))) for place in places], pa.binary()
            ),
            **{name: batch.column(column).take(chosen) for name, column in shown.items()},
        }
        arrays = [columns.get(field.name, pa.nulls(len(places), field.type)) for field in _SCHEMA]
        return cls(pa.Table.from_arrays(arrays, schema=_SCHEMA))


def row_to_ipc(row: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_batch(row)
    return bytes(sink.getvalue())


def row_from_ipc(raw: bytes) -> pa.RecordBatch:
    """Returns the original row of a misfit."""
    return pa.ipc.open_stream(raw).read_next_batch()


def find_faults(column: pa.Array, change: Conversion, name: str) -> Iterator[tuple[int, str]]:
    """Yields the indices of values that cannot be converted, each with the reason."""
    waiting = [(0, len(column))]
    while waiting:
        start, length = waiting.pop()
        part = column.slice(start, length)
        try:
            change(part)
        except FAILURES as error:
            if length == 1:
                yield start, f"Column {name!r}: {_one_line(error)}. Value: {_shown(part[0])}."
            else:
                half = length // 2
                waiting += [(start, half), (start + half, length - half)]


def dead_letter_batch(
    misfits: Misfits, topic: str, partition: int, schema_version: int, now_ms: int
) -> pa.RecordBatch:
    """Returns the misfits as rows of the topic's dead-letter table."""
    rows = misfits.rows.combine_chunks()
    count = len(rows)
    failed_at = pa.scalar(now_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
    columns = {
        "topic": pa.repeat(pa.scalar(topic, pa.string()), count),
        "error": rows["error"],
        "raw": rows["raw"],
        "schema_version": pa.repeat(pa.scalar(schema_version, pa.int32()), count),
        "failed_at": pa.repeat(failed_at, count),
        **{name: rows[name] for name in _OF_KAFKA},
        "replayed_at": pa.nulls(count, failed_at.type),
        PARTITION: pa.repeat(pa.scalar(partition, pa.int32()), count),
        OFFSET: rows[OFFSET],
    }
    return pa.table(columns).combine_chunks().to_batches()[0]


def without_offsets(rows: pa.RecordBatch | pa.Table, offsets: pa.Array) -> pa.RecordBatch | pa.Table:
    """Returns the rows without those at these offsets, in the same order."""
    if not len(offsets) or not len(rows):
        return rows
    gone = pc.is_in(rows.column(OFFSET), value_set=offsets)
    return rows.filter(pc.invert(gone)) if pc.any(gone).as_py() else rows


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _shown(value: pa.Scalar) -> str:
    """Returns a short text of a value for people, even if the value is invalid."""
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError, pa.ArrowException):
        try:
            text = repr(value.as_buffer().to_pybytes() if hasattr(value, "as_buffer") else value.value)
        except (ValueError, AttributeError, OverflowError):
            text = f"a broken {value.type}"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
