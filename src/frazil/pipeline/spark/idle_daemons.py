"""Python processes that Spark keeps though nobody needs them.

Spark asks a data source each kind of question (what sources there are, what their columns are, how to read them) in
workers of another daemon, and keeps every daemon for as long as it lives: 40 MiB each, for a question that was asked
once. A daemon that has had no workers for a while is ended here. Spark starts another when it needs one: it takes a
connection that is refused for a daemon that has quit.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from frazil.clock import Clock

LOOK_SECONDS = 2.0
PATIENCE_SECONDS = {b"pyspark.daemon": 2.0, b"frazil.pipeline.worker_daemon": 60.0}
"""By what daemons run: that of the tasks has much to load, and batches may be half a minute apart."""
_PROC = Path("/proc")


class IdleDaemons:
    """Those below one JVM, which must not keep workers for later (`spark.python.worker.reuse`)."""

    def __init__(self, jvm: int, clock: Clock) -> None:
        self._jvm = jvm
        self._clock = clock
        self._looked = clock.monotonic()
        self._idle_since: dict[int, float] = {}

    def end(self) -> None:
        """Look, if it is time to, and end those that have been idle for long enough."""
        now = self._clock.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        idle = dict(self._idle())
        self._idle_since = {pid: self._idle_since.get(pid, now) for pid in idle}
        for pid, patience in idle.items():
            if now - self._idle_since[pid] >= patience:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def _idle(self) -> Iterator[tuple[int, float]]:
        """Daemons without workers, and for how long they may be so."""
        for pid in _children(self._jvm):
            patience = PATIENCE_SECONDS.get(_module(pid))
            if patience is not None and not _children(pid):
                yield pid, patience


def _children(pid: int) -> list[int]:
    """Of all threads of a process; none where the system does not tell."""
    found: list[int] = []
    for path in _PROC.glob(f"{pid}/task/*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def _module(pid: int) -> bytes:
    """What a Python process runs; empty for others, and for those that are gone."""
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return b""
    return arguments[arguments.index(b"-m") + 1] if b"-m" in arguments[:-1] else b""
