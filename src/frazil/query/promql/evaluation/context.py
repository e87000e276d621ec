"""Holds what all parts of an evaluation share: options, source, steps, annotations, limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from frazil.query.promql.evaluation.annotations import Annotations
from frazil.query.promql.evaluation.matrix import Matrix
from frazil.query.promql.evaluation.options import EngineOptions
from frazil.query.promql.parse.literals import milliseconds
from frazil.query.promql.parse.tree import Duration, DurationExpression, Node, NumberLiteral, Timed
from frazil.query.promql.problems import DurationError, TooManySamples
from frazil.query.promql.series.source import SampleSource, Times

Floats = npt.NDArray[np.float64]
Value = Matrix | Floats | str
TOO_MANY = "query processing would load too many samples into memory in query execution"
LONGEST = (2**63 - 1) / 1e9


@dataclass(frozen=True)
class Steps:
    """Is the moments at which an expression is evaluated."""

    first: int
    last: int
    interval: int

    @cached_property
    def times(self) -> Times:
        if self.interval <= 0:
            return np.array([self.first], np.int64)
        return np.arange(self.first, self.last + 1, self.interval, dtype=np.int64)

    @property
    def count(self) -> int:
        return len(self.times)

    @property
    def single(self) -> bool:
        """Whether this is one moment, and not a range that has room for one step only."""
        return self.first == self.last

    @property
    def only_first(self) -> Steps:
        return Steps(self.first, self.first, 0)


@dataclass
class Evaluation:
    """Is one query that is being answered."""

    source: SampleSource
    options: EngineOptions
    annotations: Annotations
    query: Steps
    check: Callable[[], None]
    """Raises an error if the query is to stop. It is called between pieces of work."""
    stats_only: set[int] = field(default_factory=set)
    """The selectors (by `id`) of whose histograms only count and sum are used."""
    samples: int = 0

    def hold(self, samples: int) -> None:
        """Counts samples that the query holds; an error if they are too many."""
        self.samples += samples
        if self.samples > self.options.max_samples:
            raise TooManySamples(TOO_MANY)

    def bound(self, series: int, steps: int) -> None:
        """Raises an error if a matrix of this size is more than the query may hold, even an empty one."""
        if series * steps > self.options.max_samples - self.samples:
            raise TooManySamples(TOO_MANY)

    def duration_ms(self, duration: Duration | None, may_be_negative: bool = False) -> int:
        """Returns a duration, computed if need be."""
        if duration is None:
            return 0
        if isinstance(duration, NumberLiteral):
            return milliseconds(duration.value)
        seconds = self.seconds(duration)
        if np.isnan(seconds) or np.isinf(seconds):
            raise DurationError("duration is NaN or infinite", duration.start, duration.end)
        if not may_be_negative and seconds <= 0:
            raise DurationError("duration must be greater than 0", duration.start, duration.end)
        if abs(seconds) > LONGEST:
            raise DurationError("duration is out of range", duration.start, duration.end)
        return milliseconds(seconds)

    def seconds(self, duration: Duration) -> float:
        if isinstance(duration, NumberLiteral):
            return duration.value
        if duration.op == "step":
            return self.query.interval / 1000
        if duration.op == "range":
            return (self.query.last - self.query.first) / 1000
        assert duration.right is not None
        right = self.seconds(duration.right)
        if duration.left is None:
            return -right if duration.op == "-" else right
        return compute(duration, self.seconds(duration.left), right)

    def moments(self, node: Timed, steps: Steps) -> Times:
        """Returns at which times the samples of a selector or subquery are wanted, one for each step."""
        offset = self.duration_ms(node.offset, may_be_negative=True)
        if node.at is None:
            return steps.times - offset
        moment = {"start": self.query.first, "end": self.query.last}.get(str(node.at))
        if moment is None:
            moment = round(float(node.at) * 1000)
        return np.full(steps.count, moment - offset, np.int64)

    def warn(self, text: str, node: Node | None = None) -> None:
        self.annotations.warn(text, node)

    def info(self, text: str, node: Node | None = None) -> None:
        self.annotations.info(text, node)


def compute(duration: DurationExpression, left: float, right: float) -> float:
    if duration.op in ("/", "%") and right == 0:
        kind = "division" if duration.op == "/" else "modulo"
        raise DurationError(f"{kind} by zero", duration.start, duration.end)
    with np.errstate(all="ignore"):
        one, other = np.float64(left), np.float64(right)
        found = {
            "+": np.add,
            "-": np.subtract,
            "*": np.multiply,
            "/": np.divide,
            "%": np.fmod,
            "^": np.power,
            "min_of": np.minimum,
            "max_of": np.maximum,
        }[duration.op](one, other)
    return float(found)
