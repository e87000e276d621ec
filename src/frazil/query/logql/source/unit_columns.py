"""Keeps what the immutable rows of a unit have, as codes: times, streams and labels. A later query reads nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.engine.interface import Cache
from frazil.query.logql.blocks import Labels
from frazil.query.logql.columns import Codes, Column, Rows, column_of
from frazil.query.logql.source.label_rules import SERVICE_NAME, LabelRules
from frazil.query.logql.source.rows_block import (
    BASE_COLUMNS,
    LINE_COLUMN,
    RowsBlock,
    Streams,
    columns_of_metadata,
    nanoseconds,
    plain,
)
from frazil.scan.interface import Unit

T = TypeVar("T")

_TEXT_BYTES = 80
"""A text takes about so much more as an object, which is made when somebody looks at it."""
_NO_TIMES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class UnitColumns:
    """Has the columns of all rows of a unit that the tenants may see."""

    unit: Unit
    rules: LabelRules
    cache: Cache
    stream_columns: tuple[str, ...]
    only_services: bool
    """Whether nobody looks at another label of a stream than the name of its service, which is a column."""
    _made: dict[object, Any] = field(default_factory=dict, compare=False)
    """What this query has looked at, whether the cache had room for it or not."""

    def times_ns(self) -> NDArray[np.int64]:
        return self._kept(
            ("loki times", self.unit.key),
            lambda: nanoseconds(self._read(BASE_COLUMNS), "timestamp"),
            lambda times: times.nbytes,
        )

    def streams(self) -> Streams:
        if self.only_services:
            found = self._kept(("loki services", self.unit.key), self._services, _size_of_services)
            if found is not None:
                return found
        key = ("loki streams of rows", self.unit.key, self.rules, self.stream_columns)
        return self._kept(key, self._all_streams, _size_of_streams)

    def metadata(self, name: str) -> Column:
        key = ("loki metadata", self.unit.key, self.rules, name)
        return self._kept(key, lambda: self._metadata(name), _size_of_column)

    def lines(self) -> pa.Array:
        """Returns the lines, which are too large to be kept for other queries."""
        if LINE_COLUMN not in self._made:
            self._made[LINE_COLUMN] = RowsBlock(self._read((LINE_COLUMN,)), self.rules, _NO_TIMES).lines
        return self._made[LINE_COLUMN]

    def _kept(self, key: tuple[object, ...], make: Callable[[], T], size: Callable[[T], int]) -> T:
        if key not in self._made:
            self._made[key] = make() if self.unit.key is None else self.cache.get(key, make, size)
        return cast(T, self._made[key])

    def _read(self, columns: Sequence[str]) -> pa.RecordBatch:
        return self.unit.read(columns, filtered=False)

    def _services(self) -> Streams | None:
        """Returns the streams by the names of their services, or None if other labels tell the name of some."""
        names = plain(self._read((SERVICE_NAME,)).column(SERVICE_NAME))
        if pc.any(pc.equal(pc.fill_null(names, ""), "")).as_py():
            return None
        services = column_of(names)
        return [{SERVICE_NAME: name} for name in services.texts], services.codes

    def _all_streams(self) -> Streams:
        block = RowsBlock(self._read(self.stream_columns), self.rules, _NO_TIMES)
        return list(block.streams), block.stream_codes

    def _metadata(self, name: str) -> Column:
        batch = self._read(columns_of_metadata(name))
        return _compact(RowsBlock(batch, self.rules, _NO_TIMES).metadata(name))


class UnitBlock:
    """Is rows of one unit, for queries that look at these labels only."""

    def __init__(
        self, columns: UnitColumns, streams: Streams, names: Sequence[str], rows: Rows | None = None
    ) -> None:
        """Has all rows of the unit, or these."""
        self._columns = columns
        self._streams = streams
        self._names = names
        self._chosen = rows

    @property
    def rows(self) -> int:
        return len(self._streams[1]) if self._chosen is None else len(self._chosen)

    @property
    def times_ns(self) -> NDArray[np.int64]:
        times = self._columns.times_ns()
        return times if self._chosen is None else times[self._chosen]

    @property
    def lines(self) -> pa.Array:
        lines = self._columns.lines()
        return lines if self._chosen is None else lines.take(pa.array(self._chosen))

    @property
    def streams(self) -> Sequence[Labels]:
        return self._streams[0]

    @property
    def stream_codes(self) -> Codes:
        codes = self._streams[1]
        return codes if self._chosen is None else codes[self._chosen]

    def metadata_names(self) -> Sequence[str]:
        return self._names

    def metadata(self, name: str) -> Column:
        column = self._columns.metadata(name)
        return column if self._chosen is None else column.take(self._chosen)


def _compact(column: Column) -> Column:
    """Leaves out values that no row has: those of other labels in the same maps."""
    used = np.flatnonzero(np.bincount(column.codes + 1, minlength=len(column.values) + 1)[1:])
    if len(used) == len(column.values):
        return column
    numbers = np.full(len(column.values) + 1, -1, np.int32)
    numbers[used] = np.arange(len(used), dtype=np.int32)
    return Column(numbers[column.codes], column.values.take(pa.array(used)))


def _size_of_column(column: Column) -> int:
    return int(column.codes.nbytes + column.values.nbytes + _TEXT_BYTES * len(column.values))


def _size_of_streams(streams: Streams) -> int:
    return int(streams[1].nbytes + sum(_TEXT_BYTES * (2 + 2 * len(labels)) for labels in streams[0]))


def _size_of_services(streams: Streams | None) -> int:
    return 0 if streams is None else _size_of_streams(streams)
