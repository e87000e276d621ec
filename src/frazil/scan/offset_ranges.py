"""Defines ranges of offsets, and splits them by where the rows are: in the table, in segments or in the tail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

EARLIEST, LATEST = -2, -1
"""These bounds stand for the first row there is, and for the end of what can be read now."""


class OffsetRange(NamedTuple):
    """Is the range `[start, end)` of offsets in one partition."""

    start: int
    end: int

    @property
    def rows(self) -> int:
        return max(0, self.end - self.start)


@dataclass(frozen=True)
class Bound:
    """Says where a read starts or ends in each partition: at an offset, or at `EARLIEST` or `LATEST`."""

    otherwise: int
    given: Mapping[int, int] = field(default_factory=dict)

    def of(self, partition: int) -> int:
        return self.given.get(partition, self.otherwise)


class SourceRanges(NamedTuple):
    """Has three adjacent ranges, of which some may be empty."""

    table: OffsetRange
    segments: OffsetRange
    tail: OffsetRange


def split_by_source(wanted: OffsetRange, border: int, sealed_end: int) -> SourceRanges:
    """Splits a range at `border`, below which the table has the rows, and at the end of the sealed records."""
    first = min(max(border, wanted.start), wanted.end)
    second = min(max(sealed_end, first), wanted.end)
    return SourceRanges(OffsetRange(wanted.start, first), OffsetRange(first, second), OffsetRange(second, wanted.end))
