"""Where the messages of each partition begin that a table may have to keep.

Messages go from the front of their partition, so that what is left has no hole: one that claims to be old stays as
long as one before it does. So what a subscriber has still to read is never taken because of somebody's wrong clock.
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
from frazil.maintain.retention.holds import highest_offsets, lowest_offset
from frazil.maintain.retention.limits import Bounds, Limit
from frazil.maintain.retention.plan import time_range
from frazil.scan.table_files import FileReader

Cuts = dict[int, int]
"""By partition: what is below this offset may go."""


class Reach(NamedTuple):
    low: int
    high: int


Reaches = dict[str, dict[int, Reach]]
"""By the paths of files."""


@dataclass(frozen=True)
class Piece:
    """A file of a table, as far as it matters here."""

    file: DataFile
    reaches: Mapping[int, Reach]
    """Of which partitions it has rows."""
    oldest: int | None
    newest: int | None
    """None when nobody knows, or a row has no time."""

    def is_below(self, cuts: Mapping[int, int]) -> bool:
        return bool(self.reaches) and all(reach.high < cuts.get(each, 0) for each, reach in self.reaches.items())

    def begins_below(self, cuts: Mapping[int, int]) -> bool:
        return any(reach.low < cuts.get(each, 0) for each, reach in self.reaches.items())


def pieces_of(table: Table, files: Iterable[DataFile], column: NestedField, known: Reaches) -> list[Piece]:
    """What has to be read from files for it is added to `known`: files do not change."""
    return [Piece(file, _reaches(table, file, known), *time_range(file, column)) for file in files]


def _reaches(table: Table, file: DataFile, known: Reaches) -> dict[int, Reach]:
    """By statistics where the file has rows of one partition, else by its rows."""
    if (lowest := lowest_offset(table, file)) is not None:
        partition, low = lowest
        if (high := highest_offsets(table, file).get(partition)) is not None:
            return {partition: Reach(low, high)}
    if file.file_path not in known:
        known[file.file_path] = _read_reaches(table, file)
    return known[file.file_path]


def _read_reaches(table: Table, file: DataFile) -> dict[int, Reach]:
    found: dict[int, Reach] = {}
    for batch in FileReader.of(table, None).read([FileScanTask(file)], table.schema().select(PARTITION, OFFSET)):
        rows = pa.table(batch.drop_null()).group_by(PARTITION).aggregate([(OFFSET, "min"), (OFFSET, "max")])
        for row in rows.to_pylist():
            low, high = row[f"{OFFSET}_min"], row[f"{OFFSET}_max"]
            seen = found.get(row[PARTITION], Reach(low, high))
            found[row[PARTITION]] = Reach(min(low, seen.low), max(high, seen.high))
    return found


def front(kept: Iterable[Piece], ends: Mapping[int, int]) -> Cuts:
    """Where the partitions begin that these pieces have; one that they do not have, begins at its end."""
    cuts = dict(ends)
    for piece in kept:
        for partition, reach in piece.reaches.items():
            cuts[partition] = min(reach.low, cuts.get(partition, 0))
    return cuts


def highest(one: Mapping[int, int], other: Mapping[int, int]) -> Cuts:
    return {each: max(one.get(each, 0), other.get(each, 0)) for each in one.keys() | other.keys()}


def lowest(one: Mapping[int, int], other: Mapping[int, int]) -> Cuts:
    """What both let go."""
    return {each: min(one[each], other[each]) for each in one.keys() & other.keys()}


@dataclass(frozen=True)
class Past:
    """What is past its bounds."""

    cuts: Cuts
    overdue: tuple[Piece, ...] = ()
    """Files with such rows and others, that have to be written again."""


def past(table: Table, pieces: Sequence[Piece], bounds: Bounds, ends: Mapping[int, int]) -> Past:
    cuts: Cuts = {}
    overdue: tuple[Piece, ...] = ()
    if bounds.age is not None:
        cuts, overdue = _by_age(table, pieces, bounds.age, ends)
    if bounds.size is not None:
        cuts = highest(cuts, _by_size(pieces, bounds.size, ends))
    return Past(cuts, overdue)


def _by_age(
    table: Table, pieces: Sequence[Piece], limit: Limit, ends: Mapping[int, int]
) -> tuple[Cuts, tuple[Piece, ...]]:
    moment, overdue = limit.number(limit.moment), limit.number(limit.overdue)
    young = [piece for piece in pieces if piece.newest is None or piece.newest >= moment]
    whole = front(young, ends)
    if not any(piece.oldest is not None and piece.oldest < overdue for piece in young):
        return whole, ()
    # Some of the young ones may have old rows at their front: those that come before all that have none.
    bound = front((piece for piece in young if piece.oldest is None or piece.oldest >= moment), ends)
    mixed = [piece for piece in young if piece.oldest is not None and piece.oldest < moment]
    mixed = [piece for piece in mixed if piece.begins_below(bound)]
    cuts, late = dict(bound), dict(bound)
    for piece in mixed:
        for partition, (first, first_late) in _first_young(table, piece, limit).items():
            cuts[partition] = min(first, cuts.get(partition, 0))
            late[partition] = min(first_late, late.get(partition, 0))
    if not any(piece.begins_below(late) for piece in mixed):
        return whole, ()
    return cuts, tuple(piece for piece in mixed if piece.begins_below(cuts))


def _first_young(table: Table, piece: Piece, limit: Limit) -> dict[int, tuple[int, int]]:
    """By partition, the first offset in a file whose row is not old, and the first that is not overdue."""
    moment, overdue = (limit.number(each) for each in (limit.moment, limit.overdue))
    found = {partition: (reach.high + 1, reach.high + 1) for partition, reach in piece.reaches.items()}
    wanted = table.schema().select(PARTITION, OFFSET, limit.field.name)
    for batch in FileReader.of(table, None).read([FileScanTask(piece.file)], wanted):
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
    """As Iceberg counts: days or microseconds."""
    if pa.types.is_date(times.type):
        return times.cast(pa.int32())
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())


def _first(batch: pa.RecordBatch, mask: pa.Array) -> int:
    least: int | None = pc.min(pc.filter(batch.column(OFFSET), mask)).as_py()
    return 2**63 - 1 if least is None else least


def _by_size(pieces: Sequence[Piece], size: int, ends: Mapping[int, int]) -> Cuts:
    """Without the oldest files the table still has the size that it may have."""
    left = sum(piece.file.file_size_in_bytes for piece in pieces)
    kept = [pieces[index] for index in _youngest_first(pieces)]
    while kept and left - kept[-1].file.file_size_in_bytes >= size:
        left -= kept.pop().file.file_size_in_bytes
    return front(kept, ends)


def _youngest_first(pieces: Sequence[Piece]) -> list[int]:
    """Their numbers, in an order in which none comes before those that follow it in its partition.

    Partitions are compared by time: a file is as old as the oldest of itself and those that follow it.
    """
    ages = [math.inf if piece.newest is None else piece.newest for piece in pieces]
    follow: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        for partition, reach in piece.reaches.items():
            follow[partition].append((reach.low, index))
    for reaches in follow.values():
        age = math.inf
        for _, index in sorted(reaches, reverse=True):
            age = ages[index] = min(age, ages[index])
    lows = [max((reach.low for reach in piece.reaches.values()), default=0) for piece in pieces]
    return sorted(range(len(pieces)), key=lambda index: (ages[index], lows[index]), reverse=True)
