"""Limits how often a message is logged that anybody can cause, so that nobody can fill the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Throttle:
    """Lets one message through, and then none for a while. It is thread-safe."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._not_before: float | None = None
        self._left_out = 0

    def admit(self) -> int | None:
        """Returns how many messages were suppressed since the last one was let through, or None if this one is
        suppressed too.
        """
        now = self._monotonic()
        with self._lock:
            if self._not_before is not None and now < self._not_before:
                self._left_out += 1
                return None
            left_out, self._left_out = self._left_out, 0
            self._not_before = now + self._seconds
            return left_out
