"""The result of a benchmark: a figure, the limit that it is compared with, and whether it is good enough."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args

T = TypeVar("T")
Throughput = Literal["appends/s", "rows/s", "records/s", "requests/s", "messages/s", "MB/s"]
Cost = Literal["ms", "MiB", "% of a core", "CPU s/M", "% of the records", "bytes per byte", "bytes per record"]
Unit = Throughput | Cost
"""`CPU s/M` is the unit of seconds of processor time for a million records."""
LOWER_IS_BETTER: frozenset[Unit] = frozenset(get_args(Cost))


class AtLeast(NamedTuple):
    """A target: this part of the limit must be reached."""

    ratio: float

    def __str__(self) -> str:
        return f"≥ {self.ratio:.0%}"


class Below(NamedTuple):
    """A target: this value must not be reached."""

    value: float
    unit: Unit

    def __str__(self) -> str:
        return f"< {self.value:g} {self.unit}"


@dataclass(frozen=True)
class Figure:
    name: str
    unit: Unit
    ours: float
    limit: float | None = None
    limit_name: str = ""
    ratios: tuple[float, ...] = ()
    """There is one ratio for each round: 1 is as good as the limit, less is worse."""
    target: AtLeast | Below | None = None

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def ok(self) -> bool | None:
        """Returns whether the target is met, or None when there is no target."""
        if isinstance(self.target, AtLeast):
            return self.ratio is not None and self.ratio >= self.target.ratio
        if isinstance(self.target, Below):
            return self.ours < self.target.value
        return None


class Round(NamedTuple):
    ours: float
    limit: float


def figure(
    name: str,
    unit: Unit,
    rounds: Sequence[Round],
    limit_name: str,
    target: AtLeast | Below | None = None,
) -> Figure:
    """Returns the median of rounds in which ours and the limit were measured side by side."""
    lower = unit in LOWER_IS_BETTER
    return Figure(
        name,
        unit,
        statistics.median(r.ours for r in rounds),
        statistics.median(r.limit for r in rounds),
        limit_name,
        tuple(r.limit / r.ours if lower else r.ours / r.limit for r in rounds),
        target,
    )


def quietest(rounds: Sequence[Round]) -> list[Round]:
    """Returns the third of the rounds in which the machine itself was fastest.

    A bare `fdatasync` takes ten times longer when others keep all cores busy, which hides our own work.
    """
    return sorted(rounds, key=lambda r: r.limit)[-max(1, len(rounds) // 3) :]


class Latencies(NamedTuple):
    """Latencies of many calls, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latencies:
        ordered = sorted(seconds)
        return cls(ordered[len(ordered) // 2] * 1e3, ordered[len(ordered) * 99 // 100] * 1e3)


@dataclass(frozen=True)
class Bench:
    """Says where and how long a benchmark runs."""

    folder: Path
    """This folder is empty, lies on the disk that is measured, and is removed afterwards."""
    quick: bool
    say: Callable[[str], None]
    """Shows progress to a person who waits."""

    @property
    def rounds(self) -> int:
        return 5 if self.quick else 15

    def alternate(
        self, what: str, limit: Callable[[], T], ours: Callable[[], T], rounds: int | None = None
    ) -> Iterator[tuple[T, T, T]]:
        """Yields rounds of (limit before, ours, limit after), because the speed of the machine changes and must
        affect both alike.
        """
        rounds = rounds or self.rounds
        before = limit()
        for number in range(rounds):
            self.say(f"{what}: round {number + 1} of {rounds}")
            measured = ours()
            after = limit()
            yield before, measured, after
            before = after

    def speeds(self, what: str, limit: Callable[[], float], ours: Callable[[], float]) -> list[Round]:
        return [Round(b, (a + c) / 2) for a, b, c in self.alternate(what, limit, ours)]
