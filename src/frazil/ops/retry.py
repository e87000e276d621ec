"""Trying again what may succeed later."""

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
"""Waits so many seconds; True when the work is to stop. The `wait` of a `threading.Event` is one."""

OnRetry = Callable[[FrazilError, int, float], None]
"""Told the error, how many tries have failed, and the seconds until the next."""


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
    """Call until it succeeds; raise its error when that will not pass, tries are used up, or `wait` says stop."""
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
    """A try at an open circuit is wasted, so it waits until the circuit lets one through."""
    plain = backoff.delay(attempt, rng)
    if isinstance(error, DependencyUnavailable):
        return max(plain, min(error.retry_after_seconds, backoff.longest_seconds))
    return plain
