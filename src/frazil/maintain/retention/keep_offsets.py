"""Finds the first offset of each partition that a table has to keep, by the age and size of its rows.

Rows are removed from the front of their partition, so that what is left has no gap: a row with an old time stays as
long as any row before it. So a producer with a wrong clock cannot make rows disappear that a subscriber has still to
read.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import NestedField

from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.retention.limits import AgeLimit, RetentionBounds
from frazil.maintain.retention.plan import time_range
from frazil.maintain.retention.read_progress import highest_offsets, lowest_offset
from frazil.scan.table_files import FileReader

KeepOffsets = dict[int, int]
"""This has, by partition, the first offset to keep. Rows below it may be removed."""


class OffsetBounds(NamedTuple):
    low: int
    high: int


FileOffsetBounds = dict[str, dict[int, OffsetBounds]]
"""This has, by file path and partition, the lowest and highest offset in the file."""


@dataclass(frozen=True)
class FileRows:
    """A data file with the offsets and times of its rows."""

    file: DataFile
    offsets: Mapping[int, OffsetBounds]
    """The lowest and highest offset of each partition in the file."""
    oldest: int | None
    newest: int | None
    """The lowest and highest time in the file. They are None if unknown, or if a row has no time."""

    def is_below(self, keep: Mapping[int, int]) -> bool:
        return bool(self.offsets) and all(bounds.high < keep.get(each, 0) for each, bounds in self.offsets.items())

    def begins_below(self, keep: Mapping[int, int]) -> bool:
        return any(bounds.low < keep.get(each, 0) for each, bounds in self.offsets.items())


def rows_of_files(
    table: Table, files: Iterable[DataFile], column: NestedField, known: FileOffsetBounds
) -> list[FileRows]:
    """Returns the offsets and times of files. Offsets that are read from files are cached in `known`."""
    return [FileRows(file, _offset_bounds(table, file, known), *time_range(file, column)) for file in files]


def _offset_bounds(table: Table, file: DataFile, known: FileOffsetBounds) -> dict[int, OffsetBounds]:
    """Returns the offsets in a file: by its statistics if it has rows of one partition, else by its rows."""
    if (lowest := lowest_offset(table, file)) is not None:
        partition, low = lowest
        if (high := highest_offsets(table, file).get(partition)) is not None:
            return {partition: OffsetBounds(low, high)}
    if file.file_path not in known:
        known[file.file_path] = _read_offset_bounds(table, file)
    return known[file.file_path]


def _read_offset_bounds(table: Table, file: DataFile) -> dict[int, OffsetBounds]:
    found: dict[int, OffsetBounds] = {}
    for batch in FileReader.of(table, None).read([FileScanTask(file)], table.schema().select(PARTITION, OFFSET)):
        rows = pa.table(batch.drop_null()).group_by(PARTITION).aggregate([(OFFSET, "min"), (OFFSET, "max")])
        for row in rows.to_pylist():
            low, high = row[f"{OFFSET}_min"], row[f"{OFFSET}_max"]
            seen = found.get(row[PARTITION], OffsetBounds(low, high))
            found[row[PARTITION]] = OffsetBounds(min(low, seen.low), max(high, seen.high))
    return found


def first_offsets(kept: Iterable[FileRows], ends: Mapping[int, int]) -> KeepOffsets:
    """Returns the first offset of each partition in these files, or the partition's end if it is in none."""
    keep = dict(ends)
    for file_rows in kept:
        for partition, bounds in file_rows.offsets.items():
            keep[partition] = min(bounds.low, keep.get(partition, 0))
    return keep


def highest(one: Mapping[int, int], other: Mapping[int, int]) -> KeepOffsets:
    return {each: max(one.get(each, 0), other.get(each, 0)) for each in one.keys() | other.keys()}


def lowest(one: Mapping[int, int], other: Mapping[int, int]) -> KeepOffsets:
    """Returns the lower offset of each partition. A partition that is missing in one of them is left out."""
    return {each: min(one[each], other[each]) for each in one.keys() & other.keys()}


@dataclass(frozen=True)
class ExpiredRows:
    """The rows that are past their limits: those below `keep`."""

    keep: KeepOffsets
    overdue: tuple[FileRows, ...] = ()
    """The files with such rows and others, which have to be rewritten."""


def find_expired(
    table: Table, files: Sequence[FileRows], bounds: RetentionBounds, ends: Mapping[int, int]
) -> ExpiredRows:
    keep: KeepOffsets = {}
    overdue: tuple[FileRows, ...] = ()
    if bounds.age is not None:
        keep, overdue = _by_age(table, files, bounds.age, ends)
    if bounds.size is not None:
        keep = highest(keep, _by_size(files, bounds.size, ends))
    return ExpiredRows(keep, overdue)


def _by_age(
    table: Table, files: Sequence[FileRows], limit: AgeLimit, ends: Mapping[int, int]
) -> tuple[KeepOffsets, tuple[FileRows, ...]]:
    moment, overdue = limit.number(limit.moment), limit.number(limit.overdue)
    young = [file_rows for file_rows in files if file_rows.newest is None or file_rows.newest >= moment]
    whole = first_offsets(young, ends)
    if not any(file_rows.oldest is not None and file_rows.oldest < overdue for file_rows in young):
        return whole, ()
    # Some of the young files may have old rows at their front: those before all files without old rows.
    bound = first_offsets(
        (file_rows for file_rows in young if file_rows.oldest is None or file_rows.oldest >= moment), ends
    )
    mixed = [file_rows for file_rows in young if file_rows.oldest is not None and file_rows.oldest < moment]
    mixed = [file_rows for file_rows in mixed if file_rows.begins_below(bound)]
    keep, late = dict(bound), dict(bound)
    for file_rows in mixed:
        for partition, (first, first_late) in _first_young(table, file_rows, limit).items():
            keep[partition] = min(first, keep.get(partition, 0))
            late[partition] = min(first_late, late.get(partition, 0))
    if not any(file_rows.begins_below(late) for file_rows in mixed):
        return whole, ()
    return keep, tuple(file_rows for file_rows in mixed if file_rows.begins_below(keep))


def _first_young(table: Table, file_rows: FileRows, limit: AgeLimit) -> dict[int, tuple[int, int]]:
    """Returns by partition the first offset in a file whose row is not old, and the first that is not overdue."""
    moment, overdue = (limit.number(each) for each in (limit.moment, limit.overdue))
    found = {partition: (bounds.high + 1, bounds.high + 1) for partition, bounds in file_rows.offsets.items()}
    wanted = table.schema().select(PARTITION, OFFSET, limit.field.name)
    for batch in FileReader.of(table, None).read([FileScanTask(file_rows.file)], wanted):
        times = _numbers(batch.column(limit.field.name))
        for partition in pc.unique(batch.column(PARTITION)).drop_null().to_pylist():
            mine = pc.equal(batch.column(PARTITION), partition)
            firsts = found[partition]
            found[partition] = (
                min(firsts[0], _first(batch, pc.and_(mine, pc.fill_null(pc.greater_equal(times, moment), True)))),
                min(firsts[1], _first(batch, pc.and_(mine, pc.fill_null(pc.greater_equal(times, overdue), True)))),
            )
    return found


def _numbers(times: pa.Array) -> pa.Array:
    """Converts times to Iceberg's numbers: days or microseconds."""
    if pa.types.is_date(times.type):
        return times.cast(pa.int32())
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())


def _first(batch: pa.RecordBatch, mask: pa.Array) -> int:
    least: int | None = pc.min(pc.filter(batch.column(OFFSET), mask)).as_py()
    return 2**63 - 1 if least is None else least


def _by_size(files: Sequence[FileRows], size: int, ends: Mapping[int, int]) -> KeepOffsets:
    """Returns the first offsets to keep if the table loses as many of its oldest files as its maximal size allows."""
    left = sum(file_rows.file.file_size_in_bytes for file_rows in files)
    kept = [files[index] for index in _youngest_first(files)]
    while kept and left - kept[-1].file.file_size_in_bytes >= size:
        left -= kept.pop().file.file_size_in_bytes
    return first_offsets(kept, ends)


def _youngest_first(files: Sequence[FileRows]) -> list[int]:
    """Returns the indices of the files, youngest first. No file comes before those that follow it in its partition.

    Files of different partitions are compared by time: a file is as old as the oldest of itself and its followers.
    """
    ages = [math.inf if file_rows.newest is None else file_rows.newest for file_rows in files]
    follow: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for index, file_rows in enumerate(files):
        for partition, bounds in file_rows.offsets.items():
            follow[partition].append((bounds.low, index))
    for offsets in follow.values():
        age = math.inf
        for _, index in sorted(offsets, reverse=True):
            age = ages[index] = min(age, ages[index])
    lows = [max((bounds.low for bounds in file_rows.offsets.values()), default=0) for file_rows in files]
    return sorted(range(len(files)), key=lambda index: (ages[index], lows[index]), reverse=True)
