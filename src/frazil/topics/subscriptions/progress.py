"""Remembers what a subscription has acknowledged of one partition.

Everything below `mark` is acknowledged, and some ranges beyond it, which were acknowledged out of order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any


class Progress:
    """Belongs to one thread. Acknowledging only adds; `rewind` takes back, and begins a new turn."""

    __slots__ = ("_ends", "_starts", "epoch", "mark", "turn")

    def __init__(self, mark: int = 0, epoch: str = "", turn: int = 0, gaps: Iterable[tuple[int, int]] = ()) -> None:
        self.mark = mark
        self.epoch = epoch
        """It is empty until a message was seen."""
        self.turn = turn
        """It counts how often something was taken back. Of two accounts the one with the later turn is right, and two
        of the same turn are merged."""
        # These are the ranges [start, end) beyond the mark. They touch neither the mark nor each other.
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in gaps:
            self.acknowledge(start, end)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Returns the ranges that are acknowledged beyond the mark, in order."""
        return list(zip(self._starts, self._ends, strict=True))

    @property
    def gap_count(self) -> int:
        return len(self._starts)

    @property
    def end(self) -> int:
        """Returns the offset after which nothing is acknowledged."""
        return self._ends[-1] if self._ends else self.mark

    def acknowledge(self, start: int, end: int) -> None:
        """Adds the range [start, end)."""
        if end <= start or end <= self.mark:
            return
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        if start <= self.mark:
            # The ranges before `first` end below `start`, and so below the mark. There are none.
            self.mark = end
            del self._starts[:last], self._ends[:last]
        else:
            self._starts[first:last] = [start]
            self._ends[first:last] = [end]

    def has(self, offset: int) -> bool:
        if offset < self.mark:
            return True
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and offset < self._ends[index]

    def missing(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the parts of [start, end) that are not acknowledged, in order."""
        start = max(start, self.mark)
        index = bisect_right(self._ends, start)
        while start < end:
            if index == len(self._starts) or self._starts[index] >= end:
                yield start, end
                return
            if start < self._starts[index]:
                yield start, self._starts[index]
            start = self._ends[index]
            index += 1

    def first_missing(self, offset: int) -> int:
        """Returns the first unacknowledged offset from this one on."""
        if offset < self.mark:
            return self.mark
        index = bisect_right(self._starts, offset) - 1
        return max(offset, self._ends[index]) if index >= 0 else offset

    def missing_count(self, end: int) -> int:
        """Returns how many messages below `end` are not acknowledged."""
        return sum(stop - start for start, stop in self.missing(self.mark, end))

    def rewind(self, offset: int, epoch: str) -> None:
        """Takes back what is acknowledged from `offset` on. Later messages belong to this epoch."""
        self._cut(offset)
        self.mark = min(self.mark, offset)
        self._next_turn(epoch)

    def restart(self, offset: int, epoch: str) -> None:
        """Begins anew at an offset: everything below counts as acknowledged, and nothing else does."""
        self._starts, self._ends = [], []
        self.mark = offset
        self._next_turn(epoch)

    def _next_turn(self, epoch: str) -> None:
        self.epoch = epoch
        self.turn += 1

    def _cut(self, offset: int) -> None:
        keep = bisect_left(self._starts, offset)
        del self._starts[keep:], self._ends[keep:]
        if self._ends and self._ends[-1] > offset:
            self._ends[-1] = offset

    def join(self, other: Progress) -> None:
        """Adds what another account of the same subscription and partition knows."""
        if other.turn > self.turn:
            self.mark, self.epoch, self.turn = other.mark, other.epoch, other.turn
            self._starts, self._ends = list(other._starts), list(other._ends)
        elif other.turn == self.turn:
            self.epoch = self.epoch or other.epoch
            self.acknowledge(self.mark, other.mark)
            for start, end in zip(other._starts, other._ends, strict=True):
                self.acknowledge(start, end)

    def copy(self) -> Progress:
        return Progress(self.mark, self.epoch, self.turn, self.gaps)

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "turn": self.turn, "mark": self.mark, "gaps": self.gaps}

    @classmethod
    def from_json(cls, data: Any) -> Progress:
        gaps = [(int(start), int(end)) for start, end in data["gaps"]]
        return cls(int(data["mark"]), str(data["epoch"]), int(data["turn"]), gaps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Progress) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Progress({self.mark}, {self.epoch!r}, turn={self.turn}, gaps={self.gaps})"
