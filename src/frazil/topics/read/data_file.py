"""Reads the messages of one partition from one data file of a table, in the order of their offsets.

The mover writes them in that order, and then they are read as they are, a chunk at a time. If a file has another
order, its offsets are read first, and then its messages in ranges of offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import LongType

from frazil.lake.checksums.verifying_io import VerifyingFileIO
from frazil.lake.pyiceberg_internals import deleted_places
from frazil.lake.schema.arrow import FIELD_ID
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.segments.segment import READ_BYTES, piece_rows
from frazil.topics.messages import MESSAGE
from frazil.topics.read.chunk_cache import CHUNK_BYTES

Offsets = npt.NDArray[np.int64]
_INTEGERS = (PARTITION, OFFSET)
CHUNKS_SORTED = 8
"""So many chunks are gathered at a time from a file with another order, because each pass reads the same rows."""


class OffsetRows(NamedTuple):
    """Has messages with ascending offsets, perhaps with gaps between them."""

    offsets: Offsets
    batch: pa.RecordBatch

    def since(self, offset: int) -> OffsetRows:
        at = int(np.searchsorted(self.offsets, offset))
        return OffsetRows(self.offsets[at:], self.batch.slice(at)) if at else self


class Unordered(Exception):
    """Raised when a file has its rows in another order."""


@dataclass(frozen=True)
class ColumnIds:
    """Has the ids of the columns. Files are read by id, because names may have changed."""

    ids: dict[str, int]

    @classmethod
    def of(cls, table: Table) -> ColumnIds:
        return cls({field.name: field.field_id for field in table.schema().fields})

    def lowest(self, task: FileScanTask) -> int:
        """Returns a lower bound of the offsets in the file, of any partition."""
        bound = (task.file.lower_bounds or {}).get(self.ids[OFFSET])
        return 0 if bound is None else int(from_bytes(LongType(), bound))


class DataFile:
    """Is one open file. `start` is the first offset that is wanted."""

    def __init__(self, io: VerifyingFileIO, task: FileScanTask, fields: ColumnIds, partition: int) -> None:
        self.path = task.file.file_path
        self._io = io
        self._task = task
        self._partition = partition
        with io.explaining_damage(task):
            self._stream = io.new_input(self.path).open()
            self._file = pq.ParquetFile(
                self._stream, buffer_size=READ_BYTES, pre_buffer=False, page_checksum_verification=True
            )
            self._chunk_rows = piece_rows(self._file.metadata, CHUNK_BYTES)
            self._names = self._named(fields)
            self._deleted = _deleted(io, task)

    def _named(self, fields: ColumnIds) -> dict[str, str]:
        """Returns the names that the file has for its columns."""
        there = {int((field.metadata or {}).get(FIELD_ID, -1)): field.name for field in self._file.schema_arrow}
        wanted = (*MESSAGE.names, *_INTEGERS)
        return {name: there[fields.ids[name]] for name in wanted if fields.ids.get(name) in there}

    def close(self) -> None:
        self._file.close()
        self._stream.close()

    def ordered(self, start: int) -> Iterator[OffsetRows]:
        """Yields the messages from `start` on as the file has them. Raises `Unordered` if they are in another
        order."""
        last = -1
        for rows in self._read((*MESSAGE.names, *_INTEGERS), start):
            if rows.offsets[0] <= last or (np.diff(rows.offsets) <= 0).any():
                raise Unordered
            last = int(rows.offsets[-1])
            yield rows

    def sorted(self, start: int) -> Iterator[OffsetRows]:
        """Sorts the messages from `start` on, and yields them range by range."""
        there = np.sort(np.concatenate([_NONE, *(rows.offsets for rows in self._read(_INTEGERS, start))]))
        many = CHUNKS_SORTED * self._chunk_rows
        for at in range(0, len(there), many):
            low, high = int(there[at]), int(there[min(at + many, len(there)) - 1])
            found = list(self._read((*MESSAGE.names, *_INTEGERS), low, high))
            offsets = np.concatenate([rows.offsets for rows in found])
            order = np.argsort(offsets, kind="stable")
            batch = pa.concat_batches([rows.batch for rows in found]).take(pa.array(order))
            yield OffsetRows(offsets[order], batch)

    def lowest(self, start: int) -> int:
        """Returns the smallest offset from `start` on, whatever the order. The file must have one."""
        return min(int(rows.offsets.min()) for rows in self._read(_INTEGERS, start))

    def times(self, since: int) -> Iterator[tuple[Offsets, Offsets]]:
        """Yields offsets and publish times (in milliseconds) of row groups that may have messages since then."""
        for group, first in self._groups(0, None, since):
            for rows in self._group(group, first, ("publish_time", *_INTEGERS), 0, None):
                times = rows.batch.column("publish_time").cast(pa.int64()).fill_null(0)
                yield rows.offsets, times.to_numpy(zero_copy_only=False)

    def _read(self, names: tuple[str, ...], start: int, last: int | None = None) -> Iterator[OffsetRows]:
        for group, first in self._groups(start, last):
            yield from self._group(group, first, names, start, last)

    def _groups(self, start: int, last: int | None, since: int | None = None) -> Iterator[tuple[int, int]]:
        """Yields the row groups that may have such rows, each with the position of its first row in the file."""
        metadata, first = self._file.metadata, 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            bounds = _bounds(group, {self._names[name]: name for name in (*_INTEGERS, "publish_time")})
            low, high = bounds.get(OFFSET, (0, start))
            least, most = bounds.get(PARTITION, (self._partition, self._partition))
            _, newest = bounds.get("publish_time", (0, since))
            wanted = low <= (high if last is None else last) and high >= start and least <= self._partition <= most
            if wanted and (since is None or _milliseconds(newest) >= since):
                yield number, first
            first += group.num_rows

    def _group(
        self, group: int, first: int, names: tuple[str, ...], start: int, last: int | None
    ) -> Iterator[OffsetRows]:
        with self._io.explaining_damage(self._task):
            yield from self._rows(group, first, names, start, last)

    def _rows(
        self, group: int, first: int, names: tuple[str, ...], start: int, last: int | None
    ) -> Iterator[OffsetRows]:
        there = {self._names[name]: name for name in names if name in self._names}
        for batch in self._file.iter_batches(self._chunk_rows, row_groups=[group], columns=list(there)):
            batch = batch.rename_columns([there[name] for name in batch.schema.names])
            offsets = batch.column(OFFSET).to_numpy()
            keep = (batch.column(PARTITION).to_numpy() == self._partition) & (offsets >= start)
            if last is not None:
                keep &= offsets <= last
            if self._deleted is not None:
                keep &= ~np.isin(np.arange(first, first + len(batch)), self._deleted)
            first += len(batch)
            if not keep.all():
                batch, offsets = batch.filter(pa.array(keep)), offsets[keep]
            if len(offsets):
                yield OffsetRows(offsets, _message_columns(batch, names))


def _message_columns(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
    """Returns the message columns among `names`. A column that the file lacks is null."""
    fields = [MESSAGE.field(name) for name in names if name not in _INTEGERS]
    columns = [
        batch.column(field.name).cast(field.type, safe=False)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _deleted(io: FileIO, task: FileScanTask) -> Offsets | None:
    """Returns the positions of rows that were deleted from the file since it was written."""
    if not task.delete_files:
        return None
    found = [np.asarray(places) for places in deleted_places(io, task)]
    return np.concatenate(found) if found else None


def _bounds(group: pq.RowGroupMetaData, names: dict[str, str]) -> dict[str, tuple[Any, Any]]:
    found = {}
    for number in range(group.num_columns):
        column = group.column(number)
        name = names.get(column.path_in_schema)
        if name is not None and column.is_stats_set and column.statistics.has_min_max:
            found[name] = (column.statistics.min, column.statistics.max)
    return found


def _milliseconds(value: Any) -> float:
    return value.timestamp() * 1000 if hasattr(value, "timestamp") else float(value)


_NONE = np.empty(0, np.int64)
