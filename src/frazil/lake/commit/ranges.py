"""Ranges of offsets: a batch moves one range of each partition."""

from __future__ import annotations

from typing import NamedTuple


class Range(NamedTuple):
    """The offsets `[start, end)` of one partition. `epoch` is the epoch of the last record."""

    partition: int
    start: int
    end: int
    epoch: str

    @property
    def rows(self) -> int:
        return self.end - self.start
