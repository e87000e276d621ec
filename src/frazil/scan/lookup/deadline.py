"""Sets a deadline after which a reader gives up."""

from __future__ import annotations

import threading
import time

from frazil.errors import QueryTimeout


class Deadline(threading.Event):
    """Is an event that the passing of time sets; nobody has to wait for it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def is_set(self) -> bool:
        return super().is_set() or time.monotonic() >= self._until

    def check(self) -> None:
        if self.is_set():
            raise QueryTimeout(
                f"Looking into segments and table took longer than {self._seconds:g} seconds. Ask by SQL, which may "
                f"take longer (sql.timeout_seconds)."
            )
