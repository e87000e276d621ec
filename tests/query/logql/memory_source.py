"""Has blocks of lines in memory, and selects from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.query.logql.blocks import Labels, Selection
from frazil.query.logql.columns import Codes, Column
from frazil.query.logql.source.stream_matching import selected


@dataclass(frozen=True)
class MemoryBlock:
    """Is a block that has everything."""

    times_ns: NDArray[np.int64]
    lines: pa.Array
    streams: Sequence[Labels]
    stream_codes: Codes
    metadata_columns: Mapping[str, Column]

    @property
    def rows(self) -> int:
        return len(self.times_ns)

    @cached_property
    def _names(self) -> list[str]:
        return list(self.metadata_columns)

    def metadata_names(self) -> Sequence[str]:
        return self._names

    def metadata(self, name: str) -> Column:
        return self.metadata_columns[name]

    def take(self, rows: NDArray[np.int64]) -> MemoryBlock:
        return MemoryBlock(
            self.times_ns[rows],
            self.lines.take(pa.array(rows)),
            self.streams,
            self.stream_codes[rows],
            {name: column.take(rows) for name, column in self.metadata_columns.items()},
        )


class MemorySource:
    """Selects from one block, and gives it in pieces."""

    def __init__(self, block: MemoryBlock, rows_at_once: int = 65_536) -> None:
        self._block = block
        self._rows_at_once = rows_at_once

    def select(self, selection: Selection) -> Iterator[MemoryBlock]:
        block = self._block
        fitting = np.array([selected(selection.matchers, labels) for labels in block.streams], np.bool_)
        inside = (block.times_ns >= selection.start_ns) & (block.times_ns < selection.end_ns)
        rows = np.flatnonzero(inside & fitting[block.stream_codes]) if len(fitting) else np.zeros(0, np.int64)
        if selection.order != "none":
            rows = rows[np.argsort(block.times_ns[rows], kind="stable")]
        if selection.order == "newest first":
            rows = rows[::-1]
        for start in range(0, len(rows), self._rows_at_once):
            yield block.take(rows[start : start + self._rows_at_once])
