"""Defines the cut of a scan: what a topic was at one moment, and what is known of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.decode import DecodingRules
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.planning.pruning import TimeBounds, file_time_bounds
from frazil.scan.planning.remembered_table import TableFiles
from frazil.scan.predicates.tree import And, Column, Comparison, Or, Predicate
from frazil.scan.selection.bounded_cache import BoundedCache
from frazil.scan.selection.time_column import TimeColumn
from frazil.scan.table.data_files import DataFiles, TableFile
from frazil.scan.topic_snapshot import TopicSnapshot


class Memory:
    """Shares the memory of a scanner among what it remembers."""

    def __init__(self, limit: int) -> None:
        self.plans = limit // 8
        """Snapshots and their files may take so much."""
        self.tails = limit // 2
        self.footers = BoundedCache(limit // 16)
        self.groups = BoundedCache(limit // 8)
        self.segments = BoundedCache(limit // 8)
        self.bounds = BoundedCache(limit // 128)


@dataclass(frozen=True)
class RowRules:
    """Is what rows of the topic look like at the moment, with all that is derived from it."""

    rules: DecodingRules
    records: pa.Schema | None
    schema: pa.Schema
    serial: int
    keeps_all: bool
    """Whether every record of the log is a row."""


@dataclass(frozen=True)
class TablePlan:
    """Is what is known of the files of one snapshot."""

    table: Table
    rules: DecodingRules
    files: TableFiles
    reader: DataFiles
    times: dict[TimeColumn, TimeBounds] = field(default_factory=dict)

    def bounds(self, column: TimeColumn) -> TimeBounds:
        if column not in self.times:
            self.times[column] = file_time_bounds(self.files.index, self.table.schema(), column)
        return self.times[column]

    def file(self, place: int) -> TableFile:
        index = self.files.index
        file = index.data_file(place)
        return TableFile(file, self.files.deletes.get(file.file_path, ()), self._constants(place))

    def _constants(self, place: int) -> tuple[tuple[int, Any], ...]:
        index = self.files.index
        values = index.partitions[place]
        spec = self.table.metadata.specs().get(int(index.spec_ids[place])) if values else None
        return tuple(
            (each.source_id, values[at])
            for at, each in enumerate(spec.fields if spec is not None else ())
            if isinstance(each.transform, IdentityTransform) and values[at] is not None
        )


@dataclass(frozen=True)
class Cut:
    snapshot: TopicSnapshot
    rules: RowRules
    plan: TablePlan | None
    below: Mapping[int, int] | None = None
    """If it is given, only rows of these partitions below these offsets are seen."""

    @property
    def limit(self) -> Predicate | None:
        """Returns a condition for the rows that are seen, or None if all are."""
        if self.below is None:
            return None
        partition, offset = Column(PARTITION), Column(OFFSET)
        return Or(
            tuple(
                And((Comparison(partition, "==", each), Comparison(offset, "<", end)))
                for each, end in sorted(self.below.items())
            )
        )

    @property
    def offsets(self) -> dict[int, int]:
        snapshot = self.snapshot
        return {each: max(snapshot.offsets.get(each, 0), snapshot.extent(each).end) for each in snapshot.partitions}

    @cached_property
    def log_ranges(self) -> dict[int, OffsetRange]:
        """Returns which offsets of each partition the table does not have."""
        offsets, extents = self.snapshot.offsets, self.snapshot.extents
        ranges = {
            partition: OffsetRange(max(extent.start, offsets.get(partition, 0)), self._log_end(partition, extent.end))
            for partition, extent in sorted(extents.items())
        }
        return {partition: each for partition, each in ranges.items() if each.rows}

    def _log_end(self, partition: int, end: int) -> int:
        return end if self.below is None else min(end, self.below.get(partition, 0))
