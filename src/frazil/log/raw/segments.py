"""Raw segments: they hold appends as they came (`forms`), and readers decode them.

Such a segment has one row of Parquet for each WAL entry: how many records it holds, when they were stored, the
estimated size of their rows, and the payload. Sealing it costs a copy and a compression, and its records are decoded
once, on their way into the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frazil.log.forms import RawEntry, make_rows, unpack_appends
from frazil.log.schema.repeated_texts import with_repeated_texts
from frazil.log.wal.entries import Entry

RUN_BYTES = 8 * 1024 * 1024
"""Entries of about this size are decoded at a time: enough that the fixed costs do not matter."""
READ_ENTRIES = 64
"""A reader that streams a segment fetches this many entries at a time."""

SCHEMA = pa.schema(
    [
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("weight", pa.int64(), nullable=False),
        pa.field("stored_ms", pa.int64(), nullable=False),
        pa.field("payload", pa.large_binary(), nullable=False),
    ]
)


class RawEncoding(NamedTuple):
    """Says how the payloads of a raw segment are decoded."""

    form: str
    schema: pa.Schema
    """The schema of the decoded rows."""


def table_of(entries: Sequence[Entry]) -> pa.Table:
    """Return the Parquet rows of a raw segment."""
    payloads = [entry.payload for entry in entries]
    ends = np.cumsum([0, *(payload.size for payload in payloads)], dtype=np.int64)
    whole = payloads[0] if len(payloads) == 1 else pa.py_buffer(b"".join(map(memoryview, payloads)))
    column = pa.Array.from_buffers(pa.large_binary(), len(payloads), [None, pa.py_buffer(ends), whole])
    numbers = [
        pa.array([entry.rows for entry in entries], pa.int64()),
        pa.array([entry.weight for entry in entries], pa.int64()),
        pa.array([entry.time_ms for entry in entries], pa.int64()),
    ]
    return pa.Table.from_arrays([*numbers, column], schema=SCHEMA)


class _Run(NamedTuple):
    """Consecutive entries that are decoded together."""

    first: int
    """The index of their first row in the segment."""
    rows: int
    stored: list[RawEntry]

    def decoded(self, raw_encoding: RawEncoding, dictionaries: bool = False) -> pa.RecordBatch:
        return make_rows(raw_encoding.form, self.stored, raw_encoding.schema, dictionaries=dictionaries)


def rows_of(
    stored: pa.Table, raw_encoding: RawEncoding, columns: Sequence[str] | None = None, *, dictionaries: bool = False
) -> Iterator[pa.Table]:
    """Yield the rows of all entries, some at a time: decoding requests takes several times the memory of their rows.

    With `dictionaries`, texts that repeat are dictionary-encoded.
    """
    names = _present(raw_encoding, columns)
    for run in _runs(stored.to_batches(), RUN_BYTES):
        rows = pa.Table.from_batches([run.decoded(raw_encoding, dictionaries).select(names)])
        yield with_repeated_texts(rows) if dictionaries else rows


def stream_rows(
    file: pq.ParquetFile,
    raw_encoding: RawEncoding,
    skip: int,
    count: int,
    columns: Sequence[str] | None,
    piece_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Yield `count` rows after the first `skip`, in batches of about `piece_bytes`."""
    names, end = _present(raw_encoding, columns), skip + count
    at = 0
    for run in _runs(file.iter_batches(READ_ENTRIES), piece_bytes):
        first, last = max(0, skip - run.first), min(run.rows, end - run.first)
        at = run.first + run.rows
        if first < last:
            yield run.decoded(raw_encoding).select(names).slice(first, last - first)
        if at >= end:
            return
    raise ValueError(f"{at} rows could be read, not {end}")


def _present(raw_encoding: RawEncoding, columns: Sequence[str] | None) -> list[str]:
    """Return the wanted columns that are in the segment: younger ones are not."""
    names: list[str] = raw_encoding.schema.names
    return names if columns is None else [name for name in columns if name in names]


def _runs(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[_Run]:
    """Yield runs of entries whose rows have about so many bytes; at least one entry at a time."""
    first = rows = weight = 0
    stored: list[RawEntry] = []
    for batch in batches:
        numbers = zip(*(batch.column(name).to_pylist() for name in ("rows", "weight", "stored_ms")), strict=True)
        for (own_rows, own_weight, time_ms), payload in zip(numbers, batch.column("payload"), strict=True):
            if stored and weight + own_weight > most_bytes:
                yield _Run(first, rows, stored)
                first, rows, weight, stored = first + rows, 0, 0, []
            stored.append(RawEntry(unpack_appends(payload.as_buffer()), own_rows, time_ms))
            rows += own_rows
            weight += own_weight
    if stored:
        yield _Run(first, rows, stored)
