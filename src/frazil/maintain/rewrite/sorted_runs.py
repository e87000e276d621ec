"""Sorts files that are not sorted: runs of their rows that fit into memory are sorted and put on local disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from frazil.errors import ParquetWrite
from frazil.lake.write.sorting import Sorter

RUN_BYTES = 48 * 1024 * 1024
"""This is how many bytes of rows are sorted at a time. While they are sorted, they are in memory three times."""
_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")


def sorted_runs(
    batches: Iterable[pa.RecordBatch], sorter: Sorter, folder: Path, name: str, rows: int
) -> list[Iterator[pa.RecordBatch]]:
    """Returns the runs, each as batches of so many rows. The files stay in the folder."""
    runs: list[Iterator[pa.RecordBatch]] = []
    waiting: list[pa.RecordBatch] = []
    size = 0
    try:
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= RUN_BYTES:
                runs.append(_run(waiting, sorter, folder / f"{name}-{len(runs)}.arrow", rows))
                waiting, size = [], 0
        if waiting:
            runs.append(_run(waiting, sorter, folder / f"{name}-{len(runs)}.arrow", rows))
    except OSError as error:
        raise ParquetWrite(f"Rows could not be sorted on the local disk, in {folder}: {error}.") from error
    return runs


def _run(batches: list[pa.RecordBatch], sorter: Sorter, path: Path, rows: int) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches).combine_chunks()
    order = sorter.order(table)
    with pa.ipc.new_file(str(path), table.schema, options=_COMPRESSION) as writer:
        writer.write_table(table if order is None else table.take(order), max_chunksize=rows)
    return _read(path)


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
