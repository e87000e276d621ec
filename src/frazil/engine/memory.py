"""Divides the memory of a query process between what queries hold and what is kept for the next ones."""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

T = TypeVar("T")

TOO_MUCH_MEMORY = 77
"""A process exits with this code when it took far more memory than its queries may."""
ENTRY_BYTES = 200
"""A kept value takes so much more for its place and a short key."""
_PART_BYTES = 64
"""Each part of a key takes about this much, and a text or bytes in it one more for each character."""

_POLL_SECONDS = 0.05
_STATISTICS = Path("/proc/self/statm")


class MemoryBudget:
    """Is the memory of one process. What queries hold comes first: the cache makes room for them."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._held = 0
        self.cache = LruCache(self._room)

    @property
    def held(self) -> int:
        """Returns what running queries hold."""
        return self._held

    def hold(self, nbytes: int) -> bool:
        """Takes memory for a query. Returns False, and takes nothing, if all queries together held too much then."""
        with self._lock:
            if self._held + nbytes > self.total:
                return False
            self._held += nbytes
        self.cache.shrink()
        return True

    def release(self, nbytes: int) -> None:
        with self._lock:
            self._held -= nbytes

    def _room(self) -> int:
        return self.total - self._held


class _Kept(NamedTuple):
    value: Any
    nbytes: int


class LruCache:
    """Keeps values as long as there is room, those that were used last. Any thread may use it."""

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        return self._bytes

    def find(self, key: Hashable) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
            return kept

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Returns what is kept under the key, else makes it and keeps it, if there is room.

        Several threads that want one value wait for the first of them to make it.
        """
        if (kept := self.find(key)) is not None:
            return cast(T, kept.value)
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                if (kept := self.find(key)) is not None:
                    return cast(T, kept.value)
                made = make()
                self._keep(key, made, size(made) + max(ENTRY_BYTES, key_bytes(key)))
                return made
        finally:
            with self._lock:
                self._making.pop(key, None)

    def shrink(self) -> None:
        """Forgets values until the rest has room."""
        with self._lock:
            self._shrink(self._room())

    def _keep(self, key: Hashable, value: object, nbytes: int) -> None:
        with self._lock:
            room = self._room()
            if nbytes > room:
                return
            # One of several threads may have come too late to wait for the first, when the value was dropped at once.
            if (before := self._kept.pop(key, None)) is not None:
                self._bytes -= before.nbytes
            self._shrink(room - nbytes)
            self._kept[key] = _Kept(value, nbytes)
            self._bytes += nbytes

    def _shrink(self, room: int) -> None:
        while self._kept and self._bytes > room:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= dropped.nbytes


def key_bytes(key: object) -> int:
    """Returns about how much memory a key takes: it may name thousands of units, or have what a client sent."""
    if isinstance(key, tuple | frozenset):
        return _PART_BYTES + sum(map(key_bytes, key))
    return _PART_BYTES + (len(key) if isinstance(key, str | bytes) else 0)


class MemoryGuard:
    """Ends the process when queries take far more memory than they may, because not all that they take is counted.

    It looks only while queries run.
    """

    def __init__(self, kept: int) -> None:
        """`kept` is what the process may keep beside its queries."""
        self._kept = kept
        self._allowed: dict[object, int] = {}
        self._changed = threading.Condition()
        self._limit = 0
        threading.Thread(target=self._watch, name="memory", daemon=True).start()

    def enter(self, query: object, allowed: int) -> None:
        """Lets the process grow by so much for a query."""
        with self._changed:
            if not self._allowed:
                self._limit = memory() + self._kept
            self._allowed[query] = allowed
            self._limit += allowed
            self._changed.notify()

    def leave(self, query: object) -> None:
        with self._changed:
            # What the query left behind, in caches for example, belongs to the process from now on.
            self._limit = max(self._limit - self._allowed.pop(query), memory() + sum(self._allowed.values()))

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._allowed)
                limit = self._limit
            if memory() > limit:
                os._exit(TOO_MUCH_MEMORY)
            threading.Event().wait(_POLL_SECONDS)


def memory() -> int:
    """Returns the bytes of memory that the process has now. Where the system does not say, it returns the peak."""
    try:
        return int(_STATISTICS.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
