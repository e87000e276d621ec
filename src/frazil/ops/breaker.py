"""A circuit breaker: after several failures in a row, calls to a dependency fail at once for a while.

A caller that waits for something that is down holds up others, and many retries keep it down. Only failures that may
pass count. A definite answer, even "no", shows that the dependency works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from types import TracebackType
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from frazil.clock import Clock, SystemClock
from frazil.config.sections.retry import BreakerConfig
from frazil.errors import CasConflict, DependencyUnavailable, FrazilError, Interrupted, ShutdownError
from frazil.ops.health import HEALTHY, Health

T = TypeVar("T")


class CircuitState(Enum):
    """The value of a state is what the metric shows."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class _Verdict(Enum):
    WORKS = "works"
    FAILS = "fails"
    UNKNOWN = "unknown"


class CircuitBreaker:
    """Guards calls to one dependency, and is thread-safe.

    Use `with breaker:` around a call, or `breaker.call(function)`. A call within a call counts as one call.
    """

    def __init__(
        self,
        name: str,
        config: BreakerConfig,
        clock: Clock | None = None,
        about: type[FrazilError] = FrazilError,
    ) -> None:
        """Errors of other kinds than `about` say nothing of this dependency, because a call may need several
        dependencies.
        """
        self.name = name
        self._about = about
        self.opened = 0
        """This counts how often the circuit was opened."""
        self.failures = 0
        """This counts the calls that failed."""
        self.refused = 0
        """This counts the calls that were refused because the circuit was open."""
        self._config = config
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._state = CircuitState.CLOSED
        self._generation = 0
        """This number changes with every change of state: a call that began before the change says nothing about now.
        """
        self._in_a_row = 0
        """This counts failures while the circuit is closed, and successes while it is half-open."""
        self._trying = False
        self._opened_at = 0.0
        self._cause: FrazilError | None = None
        self._calls = _Calls()

    @property
    def state(self) -> CircuitState:
        return self._state

    def call(self, function: Callable[[], T]) -> T:
        with self:
            return function()

    def __enter__(self) -> None:
        if not self._calls.depth:
            self._calls.generation = self._admit()
        self._calls.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.depth -= 1
        if not self._calls.depth:
            self._settle(self._calls.generation, _judge(error, self._about), error)

    def _admit(self) -> int:
        with self._lock:
            if self._state is CircuitState.OPEN and self._remaining() <= 0:
                self._become(CircuitState.HALF_OPEN)
            if self._state is CircuitState.OPEN or self._trying:
                self.refused += 1
                raise self._refusal()
            self._trying = self._state is CircuitState.HALF_OPEN
            return self._generation

    def _settle(self, generation: int, verdict: _Verdict, error: BaseException | None) -> None:
        with self._lock:
            if verdict is _Verdict.FAILS:
                self.failures += 1
            if generation != self._generation:
                return
            self._trying = False
            if verdict is _Verdict.FAILS and isinstance(error, FrazilError):
                self._note_failure(error)
            elif verdict is _Verdict.WORKS:
                self._note_success()

    def _note_failure(self, error: FrazilError) -> None:
        # This is a copy: the error itself would keep the frames of its call alive.
        self._cause = error.again()
        self._in_a_row += 1
        if self._state is CircuitState.HALF_OPEN or self._in_a_row >= self._config.failure_threshold:
            self._become(CircuitState.OPEN)
            self.opened += 1
            self._opened_at = self._clock.monotonic()

    def _note_success(self) -> None:
        if self._state is CircuitState.CLOSED:
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row >= self._config.success_threshold:
            self._become(CircuitState.CLOSED)

    def _become(self, state: CircuitState) -> None:
        self._state = state
        self._generation += 1
        self._in_a_row = 0
        self._trying = False

    def _remaining(self) -> float:
        """Returns the seconds until an open circuit lets a call through."""
        return self._config.reset_timeout_seconds - (self._clock.monotonic() - self._opened_at)

    def _refusal(self) -> DependencyUnavailable:
        after = max(0.0, self._remaining()) if self._state is CircuitState.OPEN else 0.0
        return DependencyUnavailable(f"{self.name} is not asked: {self._situation()}", self._cause, after)

    def _situation(self) -> str:
        if self._state is CircuitState.HALF_OPEN:
            when = "one call is trying it now"
        elif (remaining := self._remaining()) > 0:
            when = f"it is tried again in {remaining:.1f} s"
        else:
            when = "the next call tries it again"
        return f"it kept failing, and {when}. Last failure: {self._cause}"

    def health(self) -> Health:
        with self._lock:
            return HEALTHY if self._state is CircuitState.CLOSED else Health("degraded", self._situation())


class _Calls(threading.local):
    """Remembers how deep this thread is in guarded calls, and in which generation the outermost began."""

    depth = 0
    generation = 0


# These errors may be tried again, but they are answers: the catalog says that the table has changed.
_ANSWERS = (CasConflict,)
# These errors are of our own making and say nothing about the dependency.
_OURS = (DependencyUnavailable, ShutdownError, Interrupted)


def _judge(error: BaseException | None, about: type[FrazilError]) -> _Verdict:
    if error is None or isinstance(error, _ANSWERS):
        return _Verdict.WORKS
    if not isinstance(error, about) or isinstance(error, _OURS):
        return _Verdict.UNKNOWN
    return _Verdict.FAILS if error.retryable else _Verdict.WORKS


class BreakerCollector(Collector):
    """Reads the breakers' own counts whenever metrics are collected."""

    def __init__(self, breakers: Iterable[CircuitBreaker]) -> None:
        self._breakers = tuple(breakers)

    def collect(self) -> Iterator[Metric]:
        label = ("dependency",)
        state = GaugeMetricFamily("frazil_breaker_state", "0 closed, 1 half-open, 2 open.", labels=label)
        opened = CounterMetricFamily("frazil_breaker_opened", "How often the circuit was opened.", labels=label)
        failures = CounterMetricFamily("frazil_breaker_failures", "Calls that failed.", labels=label)
        refused = CounterMetricFamily("frazil_breaker_refused", "Calls that were not made.", labels=label)
        for breaker in self._breakers:
            state.add_metric([breaker.name], breaker.state.value)
            opened.add_metric([breaker.name], breaker.opened)
            failures.add_metric([breaker.name], breaker.failures)
            refused.add_metric([breaker.name], breaker.refused)
        yield from (state, opened, failures, refused)
