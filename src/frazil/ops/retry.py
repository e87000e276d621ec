"""Calls a function again when it failed with an error that may pass."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from frazil.backoff import Backoff
from frazil.config.sections.retry import RetryConfig
from frazil.errors import DependencyUnavailable, FrazilError

T = TypeVar("T")

Wait = Callable[[float], bool]
"""Waits this many seconds and returns True when the work is to stop, as the `wait` of a `threading.Event` does."""

OnRetry = Callable[[FrazilError, int, float], None]
"""Called before each wait with the error, the number of failed tries, and the seconds until the next try."""


def backoff_of(config: RetryConfig) -> Backoff:
    return Backoff(config.base_delay_ms / 1000, config.max_delay_seconds, config.max_attempts)


def sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def retrying(
    function: Callable[[], T],
    backoff: Backoff,
    rng: random.Random,
    *,
    wait: Wait = sleep,
    on_retry: OnRetry | None = None,
) -> T:
    """Call the function until it succeeds.

    Its error is raised when it will not pass, when the tries are used up, or when `wait` says stop.
    """
    failed = 0
    while True:
        try:
            return function()
        except FrazilError as error:
            failed += 1
            if not error.retryable or failed >= backoff.max_attempts:
                raise
            delay = _delay(error, backoff, failed - 1, rng)
            if on_retry:
                on_retry(error, failed, delay)
            if wait(delay):
                raise


def _delay(error: FrazilError, backoff: Backoff, attempt: int, rng: random.Random) -> float:
    """Returns how long to wait.

    A try at an open circuit would be wasted, so the wait lasts until the circuit lets one through.
    """
    plain = backoff.delay(attempt, rng)
    if isinstance(error, DependencyUnavailable):
        return max(plain, min(error.retry_after_seconds, backoff.longest_seconds))
    return plain
