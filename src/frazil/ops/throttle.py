"""What anybody can cause, and would fill the server's log: told now and then, with how many were left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Throttle:
    """Lets one through, and then none for a while. Thread-safe."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._not_before: float | None = None
        self._left_out = 0

    def admit(self) -> int | None:
        """How many were left out since the last one was let through; None if this one is left out too."""
        now = self._monotonic()
        with self._lock:
            if self._not_before is not None and now < self._not_before:
                self._left_out += 1
                return None
            left_out, self._left_out = self._left_out, 0
            self._not_before = now + self._seconds
            return left_out
