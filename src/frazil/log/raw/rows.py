"""Decodes raw entries (`forms`) into rows, many of them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from frazil.log.forms import make_rows
from frazil.log.wal.entries import DecodedRows, Entry

RUN_BYTES = 8 * 1024 * 1024
"""Entries of about this size are decoded at a time: enough that the fixed costs do not matter."""


def with_rows(entries: Sequence[Entry], *, dictionaries: bool = False) -> list[Entry]:
    """Return the same entries, all of them decoded; with `dictionaries`, texts may be dictionary-encoded."""
    found: list[Entry] = []
    for run in _runs(entries):
        if not run[0].is_raw:
            found += run
            continue
        batch = make_rows(run[0].form, [entry.raw_entry() for entry in run], run[0].schema, dictionaries=dictionaries)
        first = run[0].offset
        found += [entry._replace(decoded=DecodedRows(batch, entry.offset - first)) for entry in run]
    return found


def batches_of(entries: Sequence[Entry], *, dictionaries: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the rows of consecutive entries. Entries that were decoded together are one batch."""
    run: list[Entry] = []
    for entry in with_rows(entries, dictionaries=dictionaries):
        if run and not _decoded_together(run[-1], entry):
            yield _joined(run)
            run = []
        run.append(entry)
    if run:
        yield _joined(run)


def _runs(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield runs of entries that can be decoded together, and runs of the entries between them."""
    run: list[Entry] = []
    nbytes = 0
    for entry in entries:
        if run and (nbytes > RUN_BYTES or not _alike(run[-1], entry)):
            yield run
            run, nbytes = [], 0
        run.append(entry)
        nbytes += entry.nbytes
    if run:
        yield run


def _alike(one: Entry, other: Entry) -> bool:
    return (
        one.is_raw == other.is_raw
        and one.form == other.form
        and one.schema_version == other.schema_version
        and one.end == other.offset
    )


def _decoded_together(one: Entry, other: Entry) -> bool:
    return (
        one.decoded is not None
        and other.decoded is not None
        and one.decoded.batch is other.decoded.batch
        and one.decoded.first + one.rows == other.decoded.first
    )


def _joined(run: list[Entry]) -> pa.RecordBatch:
    if run[0].decoded is None or len(run) == 1:
        return run[0].batch()
    return run[0].decoded.batch.slice(run[0].decoded.first, sum(entry.rows for entry in run))
