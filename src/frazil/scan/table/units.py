"""Cuts the files of a table into units: ranges of rows within one row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.scan.interface import UNIT_ROWS
from frazil.scan.planning.pruning import TimeBounds
from frazil.scan.predicates.statistics import may_match
from frazil.scan.predicates.terms import term_column, terms_of
from frazil.scan.selection.bounded_cache import BoundedCache
from frazil.scan.selection.row_reader import RowReader, RowSource, rows_without_columns
from frazil.scan.selection.tally import Tally
from frazil.scan.selection.time_column import LEAST, MOST, TimeColumn
from frazil.scan.table.data_files import DataFiles, TableFile
from frazil.scan.table.footers import Footer

FEW = 8
"""If at most one of so many rows is kept, so many times the rows of a unit are decoded at a time."""


@dataclass(frozen=True)
class TableReading:
    """Is what all units of a table in one scan share."""

    files: DataFiles
    reader: RowReader
    time: TimeColumn | None
    groups: BoundedCache
    """Keeps decoded columns of large row groups, so that their units need not decode what is before them."""
    tally: Tally
    key: tuple[object, ...]
    """Tells apart rows of the same files that are read with other columns, or by other tenants."""
    serial: int
    """Other columns of the table have another number."""

    def row_groups(self, file: TableFile, bounds_ns: tuple[int, int]) -> list[RowGroup]:
        """Returns the row groups of a file that may have wanted rows. `bounds_ns` holds for all times in the file."""
        self.files.check_format(file)
        footer = self.files.footer(file)
        bounds = self._bounds(footer)
        kept = self._matching(footer, bounds)
        starts = footer.starts.tolist()
        first = np.maximum(bounds.first, bounds_ns[0]).tolist()
        last = np.minimum(bounds.last, bounds_ns[1]).tolist()
        return [
            RowGroup(self, file, group, starts[group], starts[group + 1], (first[group], last[group]))
            for group in np.flatnonzero(kept).tolist()
        ]

    def _bounds(self, footer: Footer) -> TimeBounds:
        count = footer.metadata.num_row_groups
        name = self.files.columns(footer).name(self.time.name) if self.time is not None else None
        if self.time is None or name is None:
            return TimeBounds(np.full(count, LEAST, np.int64), np.full(count, MOST, np.int64))
        return TimeBounds.of(self.time, footer.statistics(name), count)

    def _matching(self, footer: Footer, bounds: TimeBounds) -> npt.NDArray[np.bool_]:
        wanted = self.reader.filter
        kept = np.diff(footer.starts) > 0
        if wanted.time is not None:
            kept &= bounds.touching(wanted.time.start_ns, wanted.time.end_ns)
        predicate = wanted.pruning
        if predicate is None or not kept.any():
            return kept
        columns = self.files.columns(footer)
        statistics = {}
        for term in terms_of(predicate):
            column = term_column(term)
            name = columns.name(column) if column in self.reader.schema.names else None
            if name is not None:
                statistics[column] = footer.statistics(name)
        return kept & may_match(predicate, self.reader.schema, statistics, len(kept))


@dataclass(frozen=True)
class RowGroup:
    """Is one row group. `start` and `end` are positions of rows in the file."""

    reading: TableReading
    file: TableFile
    number: int
    start: int
    end: int
    bounds_ns: tuple[int, int]

    @property
    def rows(self) -> int:
        return self.end - self.start

    def units(self) -> Iterator[TableUnit]:
        for start in range(self.start, self.end, UNIT_ROWS):
            yield TableUnit(self, start, min(start + UNIT_ROWS, self.end))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the wanted rows. Each column is decoded once, and little more than one batch is in memory."""
        reading, reader = self.reading, self.reading.reader
        looked_at = reader.filter.columns
        rest = [name for name in reader.columns if name not in looked_at]
        if not looked_at or not rest or reader.columns == ():
            for source in self._sources([*looked_at, *rest]):
                yield self._counted(source)
            return
        # The columns that decide come first. If no row is wanted, the others are not read at all.
        masks = [_mask(source, reader.kept(source)) for source in self._sources(looked_at, few=True)]
        wanted = pa.concat_arrays(masks)
        if not wanted.true_count:
            reading.tally.read(self.rows, 0)
            return
        position = 0
        for source in self._sources(reader.columns, few=FEW * wanted.true_count < len(wanted)):
            kept = wanted.slice(position, source.rows)
            position += source.rows
            count = kept.true_count
            reading.tally.read(source.rows, count)
            if count:
                yield source.batch if count == source.rows else source.batch.filter(kept)

    def _counted(self, source: _LoadedRows) -> pa.RecordBatch:
        found = self.reading.reader.read(source)
        self.reading.tally.read(source.rows, found.num_rows)
        return found

    def _sources(self, columns: Sequence[str], *, few: bool = False) -> Iterator[_LoadedRows]:
        """Yields all rows of the group, some at a time: more of them if they are small, and `few` are kept.

        Columns of numbers and times are kept decoded, since many queries use them again.
        """
        files = self.reading.files
        found = files.columns(files.footer(self.file))
        names = found.names(columns)
        target = self.reading.reader.selected(columns)
        position = self.start
        if not names:
            for unit in self.units():
                yield _LoadedRows(
                    self, position, found.convert(rows_without_columns(unit.rows), columns, target, self.constants)
                )
                position += unit.rows
            return
        kept: dict[str, list[pa.Array]] = {name: [] for name in columns if _is_small(target.field(name).type)}
        small = len(kept) == len(columns)
        rows = FEW * UNIT_ROWS if few and small else UNIT_ROWS
        if small and (decoded := self._kept(columns)) is not None:
            for batch in decoded.to_batches(max_chunksize=rows):
                yield _LoadedRows(self, position, batch)
                position += len(batch)
            return
        for batch in files.batches(self.file, self.number, names, rows):
            self.reading.tally.bytes(batch.nbytes)
            converted = found.convert(batch, columns, target, self.constants)
            for name, chunks in kept.items():
                chunks.append(converted.column(name))
            yield _LoadedRows(self, position, converted)
            position += len(batch)
        for name, chunks in kept.items():
            column = pa.chunked_array(chunks, target.field(name).type)
            self.reading.groups.keep(self._key(name), column, int(column.nbytes))

    def _kept(self, columns: Sequence[str]) -> pa.Table | None:
        """Returns the columns of the group if all of them are kept decoded."""
        found = []
        for name in columns:
            column = self.reading.groups.find(self._key(name))
            self.reading.tally.looked_up(hit=column is not None)
            if column is None:
                return None
            found.append(column)
        return pa.Table.from_arrays(found, schema=self.reading.reader.selected(columns))

    def _key(self, column: str) -> tuple[object, ...]:
        return (self.reading.serial, *self.file.key, self.number, column)

    @property
    def constants(self) -> dict[int, object]:
        return dict(self.file.constants)

    @cached_property
    def deleted(self) -> npt.NDArray[np.int64] | None:
        return self.reading.files.deleted(self.file)

    def alive(self, start: int, end: int) -> pa.BooleanArray | None:
        if not self.file.deletes:
            return None
        deleted = self.deleted
        assert deleted is not None
        return pa.array(~np.isin(np.arange(start, end), deleted))

    def load(self, start: int, end: int, columns: Sequence[str]) -> pa.RecordBatch:
        """Returns rows of the group with these columns."""
        target = self.reading.reader.selected(columns)
        decoded = self._columns(columns)
        found = [decoded[name].slice(start - self.start, end - start).combine_chunks() for name in columns]
        arrays = [each.chunk(0) if isinstance(each, pa.ChunkedArray) else each for each in found]
        return pa.RecordBatch.from_arrays(arrays, schema=target)

    def _columns(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        groups = self.reading.groups
        found = {name: groups.find(self._key(name)) for name in names}
        missing = [name for name, column in found.items() if column is None]
        if missing:
            for name, column in zip(missing, self._decoded(missing).columns, strict=True):
                groups.keep(self._key(name), column, int(column.nbytes))
                found[name] = column
        return found

    def _decoded(self, columns: Sequence[str]) -> pa.Table:
        """Decodes columns of the whole group. The file is opened once for all of them."""
        files = self.reading.files
        known = files.columns(files.footer(self.file))
        names = known.names(columns)
        target = self.reading.reader.selected(columns)
        stored = (
            files.group(self.file, self.number, names).to_batches() if names else [rows_without_columns(self.rows)]
        )
        rows = [known.convert(batch, columns, target, self.constants) for batch in stored]
        self.reading.tally.bytes(sum(batch.nbytes for batch in rows))
        return pa.Table.from_batches(rows, target)


@dataclass(frozen=True)
class TableUnit:
    """Is a range of rows of one row group."""

    group: RowGroup
    start: int
    end: int

    @property
    def key(self) -> tuple[object, ...]:
        return ("table", *self.group.reading.key, *self.group.file.key, self.start, self.end)

    @property
    def rows(self) -> int:
        return self.end - self.start

    @property
    def bounds_ns(self) -> tuple[int, int]:
        return self.group.bounds_ns

    def read(self, columns: Sequence[str] | None = None, *, filtered: bool = True) -> pa.RecordBatch:
        found = self.group.reading.reader.read(self, columns, filtered=filtered)
        self.group.reading.tally.read(self.rows, found.num_rows)
        return found

    def source(self) -> RowSource:
        self.group.reading.tally.read(self.rows, 0)
        return self

    def load(self, columns: Sequence[str]) -> pa.RecordBatch:
        return self.group.load(self.start, self.end, columns) if columns else rows_without_columns(self.rows)

    def alive(self) -> pa.BooleanArray | None:
        return self.group.alive(self.start, self.end)


class _LoadedRows:
    """Has rows of a group that are decoded already."""

    def __init__(self, group: RowGroup, start: int, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.bounds_ns = group.bounds_ns
        self._group = group
        self._start = start
        self.rows = batch.num_rows

    def load(self, columns: Sequence[str]) -> pa.RecordBatch:
        return self.batch.select(list(columns)) if columns else rows_without_columns(self.rows)

    def alive(self) -> pa.BooleanArray | None:
        return self._group.alive(self._start, self._start + self.rows)


def _mask(source: _LoadedRows, kept: pa.BooleanArray | None) -> pa.BooleanArray:
    return pa.repeat(True, source.rows) if kept is None else kept


def _is_small(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_boolean(kind))
