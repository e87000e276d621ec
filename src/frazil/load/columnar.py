"""Reads record batches from Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import MemoryAlignment, RecordTooLarge, SerializationError
from frazil.formats.arrow_ipc import is_misaligned
from frazil.load.inputs import Input, InputBatch

BATCH_BYTES = 4 << 20
"""The approximate bytes of one append: large enough to be fast, small enough to keep memory low."""
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Columnar:
    """An open file: its schema, and its batches in order, each with the bytes read up to its end."""

    schema: pa.Schema
    batches: Callable[[], Iterator[tuple[pa.RecordBatch, int]]]


@contextmanager
def open_columnar(source: Input) -> Iterator[Columnar]:
    size = source.size or 0
    try:
        with pa.memory_map(source.name) as file:
            if source.format == "parquet":
                yield _parquet(pq.ParquetFile(file, page_checksum_verification=True), size)
            else:
                yield _arrow(file, size)
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        what = "Parquet" if source.format == "parquet" else "Arrow"
        kind = MemoryAlignment if is_misaligned(error) else SerializationError
        raise kind(f"{source.name} cannot be read as {what}: {_short(error)}") from error


def _parquet(file: pq.ParquetFile, size: int) -> Columnar:
    metadata = file.metadata
    uncompressed = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    rows = max(1, metadata.num_rows)
    per_batch = max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(1, uncompressed)))

    def batches() -> Iterator[tuple[pa.RecordBatch, int]]:
        done = 0
        for batch in file.iter_batches(batch_size=per_batch):
            done += batch.num_rows
            yield batch, size * done // rows

    return Columnar(file.schema_arrow, batches)


def _arrow(file: pa.NativeFile, size: int) -> Columnar:
    magic = file.read(8)
    file.seek(0)
    if magic[:6] == b"ARROW1":
        reader = pa.ipc.open_file(file)
        count = reader.num_record_batches
        return Columnar(reader.schema, lambda: ((reader.get_batch(i), size * (i + 1) // count) for i in range(count)))
    if magic[:4] == b"FEA1":
        raise pa.ArrowInvalid("it is a Feather file of version 1; write it anew as version 2")
    stream = pa.ipc.open_stream(file)
    return Columnar(stream.schema, lambda: ((batch, file.tell()) for batch in stream))


def read_batches(
    source: Input, limit: int, skip: int, fit: Callable[[pa.RecordBatch, int], pa.RecordBatch]
) -> Iterator[InputBatch]:
    """Yields the file's rows from row `skip` on, in batches of less than `limit` bytes, each converted by `fit`."""
    with open_columnar(source) as file:
        start = 0
        for batch, read in file.batches():
            # In a damaged file, offsets may point anywhere, and text may not be UTF-8.
            batch.validate(full=True)
            fresh = batch.slice(max(0, skip - start))
            row = start + batch.num_rows - fresh.num_rows
            start += batch.num_rows
            for part in _split(source, fresh, limit, row):
                yield InputBatch(fit(part, row), row + part.num_rows, read)
                row += part.num_rows


def _split(source: Input, batch: pa.RecordBatch, limit: int, row: int) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    if rows == 0:
        return
    if batch.nbytes <= min(limit, 2 * BATCH_BYTES) or (rows == 1 and batch.nbytes <= limit):
        yield batch
    elif rows == 1:
        raise RecordTooLarge(
            f"{source.name}, row {row + 1}: {batch.nbytes:,} bytes are over the limit of {limit:,} for one append "
            f"(`log.max_append_mb`)."
        )
    else:
        yield from _split(source, batch.slice(0, rows // 2), limit, row)
        yield from _split(source, batch.slice(rows // 2), limit, row + rows // 2)


def _short(error: Exception) -> str:
    text = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
    return f"{text}."
