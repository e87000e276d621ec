"""What one batch moves: a run of offsets of each partition."""

from __future__ import annotations

from typing import NamedTuple


class Range(NamedTuple):
    """Offsets `[start, end)` of one partition; `epoch` is that of its last record."""

    partition: int
    start: int
    end: int
    epoch: str

    @property
    def rows(self) -> int:
        return self.end - self.start
