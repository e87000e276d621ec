from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.backoff import Backoff
from frazil.config.sections.retry import RetryConfig
from frazil.errors import DependencyUnavailable, FrazilError, StorageUnavailable, TableNotFound
from frazil.ops.retry import backoff_of, retrying

BACKOFF = backoff_of(RetryConfig())


class Flaky:
    """A function that fails this many times, then works."""

    def __init__(self, failures: int, error: FrazilError | None = None) -> None:
        self.calls = 0
        self._failures = failures
        self._error = error or StorageUnavailable("away")

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error.again()
        return self.calls


class Waits:
    """Records the delays instead of waiting, and stops after a number of them."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.delays: list[float] = []
        self._stop_after = stop_after

    def __call__(self, seconds: float) -> bool:
        self.delays.append(seconds)
        return len(self.delays) == self._stop_after


def test_the_defaults_are_those_of_the_design() -> None:
    assert Backoff(0.1, 30.0, 10) == BACKOFF


@given(st.integers(0, 12), st.integers(0, 2**32))
def test_it_tries_as_often_as_it_may_and_waits_longer_each_time(failures: int, seed: int) -> None:
    work, waits = Flaky(failures), Waits()
    retries: list[tuple[str, int]] = []

    def note(error: FrazilError, failed: int, delay: float) -> None:
        retries.append((str(error), failed))
        assert delay > 0

    if failures < 10:
        assert retrying(work, BACKOFF, random.Random(seed), wait=waits, on_retry=note) == failures + 1
    else:
        with pytest.raises(StorageUnavailable):
            retrying(work, BACKOFF, random.Random(seed), wait=waits, on_retry=note)
    assert work.calls == min(failures + 1, 10)
    assert retries == [("away", number + 1) for number in range(work.calls - 1)]
    for number, delay in enumerate(waits.delays):
        plain = min(30.0, 0.1 * 2**number)
        assert plain <= delay <= plain * 1.1


def test_what_will_not_pass_is_not_tried_again() -> None:
    work, waits = Flaky(3, TableNotFound("gone")), Waits()
    with pytest.raises(TableNotFound):
        retrying(work, BACKOFF, random.Random(0), wait=waits)
    assert (work.calls, waits.delays) == (1, [])


def test_it_ends_early_when_told_to_stop() -> None:
    work = Flaky(9)
    with pytest.raises(StorageUnavailable):
        retrying(work, BACKOFF, random.Random(0), wait=Waits(stop_after=2))
    assert work.calls == 2
    stop = threading.Event()
    stop.set()
    work = Flaky(9)
    with pytest.raises(StorageUnavailable):
        retrying(work, Backoff(60, 60), random.Random(0), wait=stop.wait)
    assert work.calls == 1


@pytest.mark.parametrize(("after", "waited"), [(0.0, 0.1), (12.0, 12.0), (300.0, 30.0)])
def test_it_waits_for_an_open_circuit(after: float, waited: float) -> None:
    work, waits = Flaky(1, DependencyUnavailable("open", None, after)), Waits()
    retrying(work, BACKOFF, random.Random(0), wait=waits)
    assert waits.delays == [pytest.approx(waited, rel=0.1)]
