"""Ends idle Python daemons of Spark.

Spark uses a separate daemon for each kind of call to a data source (which sources exist, which columns they have, how
to read them), and keeps every daemon as long as it runs: 40 MiB each, for a call that was made once. A daemon without
workers for a while is ended here. Spark starts another when it needs one, because it takes a refused connection as a
sign that the daemon has quit.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from frazil.clock import Clock

LOOK_SECONDS = 2.0
PATIENCE_SECONDS = {b"pyspark.daemon": 2.0, b"frazil.pipeline.worker_daemon": 60.0}
"""This is how long a daemon may be idle, by its module. The daemon of the tasks loads much, and batches may be half a
minute apart."""
_PROC = Path("/proc")


class _Rest(NamedTuple):
    """A process that did nothing since it had used this much CPU time.

    A daemon that is still starting has no workers either, and on a busy machine that takes longer than the patience.
    """

    pid: int
    cpu_ticks: int


class IdleDaemons:
    """The idle daemons of one JVM. It must not reuse workers (`spark.python.worker.reuse`), which would look busy."""

    def __init__(self, jvm: int, clock: Clock) -> None:
        self._jvm = jvm
        self._clock = clock
        self._looked = clock.monotonic()
        self._idle_since: dict[_Rest, float] = {}

    def end(self) -> None:
        """Ends the daemons that have been idle for long enough. Does nothing if the last check was too recent."""
        now = self._clock.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        idle = dict(self._idle())
        self._idle_since = {rest: self._idle_since.get(rest, now) for rest in idle}
        for rest, patience in idle.items():
            if now - self._idle_since[rest] >= patience:
                with suppress(ProcessLookupError):
                    os.kill(rest.pid, signal.SIGTERM)

    def _idle(self) -> Iterator[tuple[_Rest, float]]:
        """Yields the daemons that sleep and have no workers, and how long each may be idle."""
        for pid in _children(self._jvm):
            patience = PATIENCE_SECONDS.get(_module(pid))
            if patience is not None and not _children(pid) and (rest := _rest(pid)) is not None:
                yield rest, patience


def _rest(pid: int) -> _Rest | None:
    """Returns the rest of a process that sleeps, or None if it runs, waits for a core or the disk, or has ended."""
    try:
        # The name of the program, which may contain anything, stands in parentheses before these fields.
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    state, user, system = fields[0], fields[11], fields[12]
    return _Rest(pid, int(user) + int(system)) if state == b"S" else None


def _children(pid: int) -> list[int]:
    """Returns the child processes of a process. There are none on systems that do not list them."""
    found: list[int] = []
    for path in _PROC.glob(f"{pid}/task/*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def _module(pid: int) -> bytes:
    """Returns the module that a Python process runs.

    It is empty for other processes and for those that have ended.
    """
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return b""
    return arguments[arguments.index(b"-m") + 1] if b"-m" in arguments[:-1] else b""
