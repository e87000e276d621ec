"""Parts of a read, read ahead by a few threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from frazil.scan.parts import Part

THREADS = 2
"""Arrow works on more cores by itself; one thread more hides the waiting for the store."""
_WAITING = 4
"""Batches that are ready before they are asked for."""
_LOOK_SECONDS = 0.1

_Item: TypeAlias = "pa.RecordBatch | BaseException | None"
"""None when a thread has nothing more to read."""


def read_ahead(parts: Sequence[Part], stopped: threading.Event | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, in the order in which they are ready.

    Whoever wants no more closes the iterator; `stopped` ends it from another thread, also while it waits.
    """
    threads = min(THREADS, len(parts))
    if threads == 0:
        return
    ahead = _Ahead(parts, stopped or threading.Event())
    for number in range(threads):
        threading.Thread(target=ahead.read, name=f"frazil-read-{number}", daemon=True).start()
    try:
        working = threads
        while working and not ahead.stopped.is_set():
            try:
                item = ahead.ready.get(timeout=_LOOK_SECONDS)
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


class _Ahead:
    def __init__(self, parts: Sequence[Part], stopped: threading.Event) -> None:
        self.ready: queue.Queue[_Item] = queue.Queue(_WAITING)
        self.stopped = stopped
        self.finished = threading.Event()
        self._parts = iter(parts)
        self._lock = threading.Lock()

    def read(self) -> None:
        try:
            while (part := self._next()) is not None:
                for batch in part.read():
                    if not self._put(batch):
                        return
        except BaseException as error:  # noqa: BLE001 - it is raised where the rows are wanted
            self._put(error)
        else:
            self._put(None)

    def _next(self) -> Part | None:
        with self._lock:
            return next(self._parts, None)

    def _put(self, item: _Item) -> bool:
        """False when nobody wants more."""
        while not self.stopped.is_set() and not self.finished.is_set():
            try:
                self.ready.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False
