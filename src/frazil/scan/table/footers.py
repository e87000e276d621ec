"""Remembers the footers of data files: they never change, and finding one costs a request."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from frazil.lake.checksums.page_headers import PageHeaders
from frazil.scan.predicates.statistics import ColumnStatistics

_MEMORY_FACTOR = 4
"""A footer in memory takes about this many times its size in the file."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Footer:
    """Has the metadata of one file. Any thread may use it."""

    metadata: pq.FileMetaData
    headers: PageHeaders | None
    """Where the headers of pages are, and their checksums, if the file has them and they are to be verified."""
    _statistics: dict[str, ColumnStatistics] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @cached_property
    def schema(self) -> pa.Schema:
        return self.metadata.schema.to_arrow_schema()

    @cached_property
    def starts(self) -> Integers:
        """Returns the positions of the first rows of all row groups, and the number of rows."""
        rows = [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]
        return np.cumsum([0, *rows], dtype=np.int64)

    @cached_property
    def columns(self) -> dict[str, list[int]]:
        """Returns the leaf columns of each top-level column, by their place in the file."""
        schema, found, leaf = self.schema, {}, 0
        for each in schema:
            count = _leaves(each.type)
            found[each.name] = list(range(leaf, leaf + count))
            leaf += count
        return found

    @property
    def nbytes(self) -> int:
        return _MEMORY_FACTOR * int(self.metadata.serialized_size)

    def ranges(self, group: int, columns: list[str]) -> list[tuple[int, int]]:
        """Returns the bytes of the file that a row group has of these columns, as starts and lengths."""
        found = []
        row_group = self.metadata.row_group(group)
        for name in columns:
            for leaf in self.columns[name]:
                chunk = row_group.column(leaf)
                start = chunk.data_page_offset
                if chunk.has_dictionary_page:
                    start = min(start, chunk.dictionary_page_offset)
                found.append((int(start), int(chunk.total_compressed_size)))
        return found

    def statistics(self, name: str) -> ColumnStatistics:
        """Returns what is known of a column in each row group. Only columns with one value a row have statistics."""
        with self._lock:
            if name not in self._statistics:
                self._statistics[name] = self._read(name)
            return self._statistics[name]

    def _read(self, name: str) -> ColumnStatistics:
        leaves = self.columns.get(name, [])
        kind = self.schema.field(name).type if leaves else pa.null()
        if len(leaves) != 1 or pa.types.is_nested(kind):
            return ColumnStatistics()
        groups = [self.metadata.row_group(group).column(leaves[0]) for group in range(self.metadata.num_row_groups)]
        known = [chunk.statistics if chunk.is_stats_set else None for chunk in groups]
        try:
            lower = pa.array([each.min if each is not None and each.has_min_max else None for each in known], kind)
            upper = pa.array([each.max if each is not None and each.has_min_max else None for each in known], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            lower = upper = None
        nulls = [each.null_count if each is not None and each.has_null_count else None for each in known]
        return ColumnStatistics(
            lower, upper, pa.array(nulls, pa.int64()), pa.array([chunk.num_values for chunk in groups], pa.int64())
        )


def _leaves(kind: pa.DataType) -> int:
    if pa.types.is_map(kind):
        return _leaves(kind.key_type) + _leaves(kind.item_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    return sum(_leaves(kind.field(at).type) for at in range(kind.num_fields)) if kind.num_fields else 1
