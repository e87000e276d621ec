"""What a benchmark says: one figure, what it is held against, and whether it is good enough."""

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
"""`CPU s/M` are seconds of processor time for a million records."""
LOWER_IS_BETTER: frozenset[Unit] = frozenset(get_args(Cost))


class AtLeast(NamedTuple):
    """A part of the limit that must be reached."""

    ratio: float

    def __str__(self) -> str:
        return f"≥ {self.ratio:.0%}"


class Below(NamedTuple):
    """A value that must not be reached."""

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
    """One for each round: 1 is as good as the limit, less is worse."""
    target: AtLeast | Below | None = None

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def ok(self) -> bool | None:
        """None when there is no target."""
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
    """The median of rounds in which ours and the limit were measured side by side."""
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
    """The third of the rounds in which the machine itself was fastest.

    A bare `fdatasync` takes ten times longer when others keep all cores busy; that hides our own work.
    """
    return sorted(rounds, key=lambda r: r.limit)[-max(1, len(rounds) // 3) :]


class Latencies(NamedTuple):
    """Of many calls, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latencies:
        ordered = sorted(seconds)
        return cls(ordered[len(ordered) // 2] * 1e3, ordered[len(ordered) * 99 // 100] * 1e3)


@dataclass(frozen=True)
class Bench:
    """How a benchmark is to run."""

    folder: Path
    """Empty, on the disk that is measured, removed afterwards."""
    quick: bool
    say: Callable[[str], None]
    """Progress, for a person who waits."""

    @property
    def rounds(self) -> int:
        return 5 if self.quick else 15

    def alternate(
        self, what: str, limit: Callable[[], T], ours: Callable[[], T], rounds: int | None = None
    ) -> Iterator[tuple[T, T, T]]:
        """Rounds of (limit before, ours, limit after): the machine's mood swings, and this shows both the same."""
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
