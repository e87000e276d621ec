"""Reads scan tasks ahead with a few threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeAlias

import pyarrow as pa

THREADS = 2
"""Arrow uses more cores by itself. A second thread hides the time that the first waits for the store."""
_READY_BATCHES = 4
"""The threads keep this many batches ready before they are asked for."""
_POLL_SECONDS = 0.1

ReadTask: TypeAlias = "Callable[[], Iterator[pa.RecordBatch]]"
_Item: TypeAlias = "pa.RecordBatch | BaseException | None"
"""A thread puts None when it has nothing more to read."""


def read_ahead(
    tasks: Iterable[ReadTask], stopped: threading.Event | None = None, threads: int = THREADS
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of all tasks as they become ready. The next task is asked for when a thread has time for it.

    Closing the iterator stops the threads. `stopped` ends it from another thread, even while it waits.
    """
    stop = stopped or threading.Event()
    rest = iter(tasks)
    first = list(islice(rest, 2))
    threads = min(threads, len(first))
    ahead = _Prefetcher(chain(first, rest), stop)
    for number in range(threads):
        threading.Thread(target=ahead.read, name=f"frazil-read-{number}", daemon=True).start()
    try:
        working = threads
        while working and not ahead.stopped.is_set():
            try:
                item = ahead.ready.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if item is None:
                working -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        ahead.finished.set()


class _Prefetcher:
    def __init__(self, tasks: Iterable[ReadTask], stopped: threading.Event) -> None:
        self.ready: queue.Queue[_Item] = queue.Queue(_READY_BATCHES)
        self.stopped = stopped
        self.finished = threading.Event()
        self._tasks = iter(tasks)
        self._lock = threading.Lock()

    def read(self) -> None:
        try:
            while (task := self._next()) is not None:
                for batch in task():
                    if not self._put(batch):
                        return
        except BaseException as error:  # noqa: BLE001 - it is raised where the rows are wanted
            self._put(error)
        else:
            self._put(None)

    def _next(self) -> ReadTask | None:
        with self._lock:
            return next(self._tasks, None)

    def _put(self, item: _Item) -> bool:
        """Returns False when nobody wants more."""
        while not self.stopped.is_set() and not self.finished.is_set():
            try:
                self.ready.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False
