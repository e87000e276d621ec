"""Measures what the machine can do with the segments of a batch: read, order and write them with bare pyarrow.

There is one process per core, each with its share of the segments. It makes no checksums, conversions, offsets,
statistics or commits: whatever moves these rows into a table has to do at least this.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from multiprocessing.pool import Pool
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

GROUP_ROWS = 700_000
"""A row group of 128 MiB holds this many of these rows."""


class Layout(NamedTuple):
    """The layout of the table that the rows would go to."""

    day: str | None = None
    """Rows are split by the day of this column."""
    sort: tuple[str, ...] = ()
    level: int = 3


class BareWriters:
    """One process per core that waits for work, as Spark's Python workers do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cores = len(os.sched_getaffinity(0))
        self._pool: Pool | None = None

    def __enter__(self) -> Self:
        self._pool = multiprocessing.get_context("spawn").Pool(self._cores, _one_thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._pool is not None
        self._pool.close()
        self._pool.join()

    def seconds(self, batches: Sequence[Sequence[Path]], layout: Layout) -> float:
        """Returns how long it takes to write all batches, one after the other."""
        assert self._pool is not None
        started = time.perf_counter()
        for batch in batches:
            each = -(-len(batch) // self._cores)
            shares = [list(batch[at : at + each]) for at in range(0, len(batch), each)]
            work = [(share, self._folder / f"bare-{at}", layout) for at, share in enumerate(shares)]
            self._pool.starmap(write, work, chunksize=1)
        return time.perf_counter() - started


def _one_thread() -> None:
    """Let Arrow use one thread, because there is a process for each core already."""
    pa.set_cpu_count(1)


def write(segments: Sequence[Path], target: Path, layout: Layout) -> None:
    rows = pa.concat_tables(pq.read_table(path, partitioning=None) for path in segments)
    if layout.sort:
        rows = rows.sort_by([(column, "ascending") for column in layout.sort])
    if layout.day is None:
        _write(rows, target, layout.level)
        return
    days = rows[layout.day].cast(pa.date32(), safe=False)
    for day in pc.unique(days):
        _write(rows.filter(pc.equal(days, day)), target, layout.level)


def _write(rows: pa.Table, target: Path, level: int) -> None:
    pq.write_table(
        rows,
        target,
        row_group_size=GROUP_ROWS,
        compression="zstd",
        compression_level=level,
        write_page_index=True,
        max_rows_per_page=20_000,
        dictionary_pagesize_limit=1 << 20,
    )
    for path, flags in ((target, os.O_RDONLY), (target.parent, os.O_RDONLY | os.O_DIRECTORY)):
        fd = os.open(path, flags)
        os.fsync(fd)
        os.close(fd)
