"""Which offsets are asked for, and where each of them is: in the table, in segments or in the tail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

EARLIEST, LATEST = -2, -1
"""Bounds that are no offsets: the first row there is, and the end of what can be read now."""


class OffsetRange(NamedTuple):
    """Offsets `[start, end)` of one partition."""

    start: int
    end: int

    @property
    def rows(self) -> int:
        return max(0, self.end - self.start)


@dataclass(frozen=True)
class Bound:
    """Where a read starts or ends in each partition: at an offset, or at `EARLIEST` or `LATEST`."""

    otherwise: int
    given: Mapping[int, int] = field(default_factory=dict)

    def of(self, partition: int) -> int:
        return self.given.get(partition, self.otherwise)


class SourceRanges(NamedTuple):
    """Three runs that follow each other; some may be empty."""

    table: OffsetRange
    segments: OffsetRange
    tail: OffsetRange


def split_by_source(wanted: OffsetRange, border: int, sealed_end: int) -> SourceRanges:
    """Cut at the border, below which the table has the rows, and at the end of what is sealed."""
    first = min(max(border, wanted.start), wanted.end)
    second = min(max(sealed_end, first), wanted.end)
    return SourceRanges(OffsetRange(wanted.start, first), OffsetRange(first, second), OffsetRange(second, wanted.end))
