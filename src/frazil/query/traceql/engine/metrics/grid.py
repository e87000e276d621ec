"""Cuts time into steps. A step has the spans that start after the end of the one before, up to its own end."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.query.traceql.engine.values import Bools, Ints


@dataclass(frozen=True)
class Grid:
    first_ns: int
    """The end of the first step."""
    step_ns: int
    count: int

    @classmethod
    def over(cls, start_ns: int, end_ns: int, step_ns: int) -> Grid:
        """Returns the steps of a range: their ends are multiples of the step, and the first is the range's start."""
        first = start_ns // step_ns * step_ns
        last = -(-end_ns // step_ns) * step_ns
        return cls(first, step_ns, (last - first) // step_ns + 1)

    @classmethod
    def instant(cls, start_ns: int, end_ns: int) -> Grid:
        """Returns one step that is as long as the range."""
        return cls(end_ns, end_ns - start_ns, 1)

    @property
    def start_ns(self) -> int:
        """Returns the first moment that is in a step."""
        return self.first_ns - self.step_ns + 1

    @property
    def end_ns(self) -> int:
        """Returns the first moment that is in no step any more."""
        return self.first_ns + (self.count - 1) * self.step_ns + 1

    @property
    def step_seconds(self) -> float:
        return self.step_ns / 1e9

    def ends_ms(self) -> list[int]:
        return [(self.first_ns + place * self.step_ns) // 10**6 for place in range(self.count)]

    def steps_of(self, times: Ints) -> tuple[Ints, Bools]:
        """Returns the step of each time, and which times are in one."""
        steps = -((self.first_ns - times) // self.step_ns)
        return steps, (steps >= 0) & (steps < self.count) & (times >= self.start_ns)
