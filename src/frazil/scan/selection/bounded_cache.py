"""Keeps what can be made again, up to a number of bytes; what was not used for longest goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class BoundedCache:
    """Is thread-safe. What is larger than all of it is kept alone, until the next comes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.nbytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: Hashable) -> Any | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                self.misses += 1
                return None
            self._kept.move_to_end(key)
            self.hits += 1
            return found[0]

    def keep(self, key: Hashable, value: Any, nbytes: int) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            if before is not None:
                self.nbytes -= before[1]
            self._kept[key] = (value, nbytes)
            self.nbytes += nbytes
            while self.nbytes > self._limit and len(self._kept) > 1:
                _, (_, freed) = self._kept.popitem(last=False)
                self.nbytes -= freed

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Returns what is kept under the key, else makes it and keeps it. Two threads may make it at once."""
        found: T | None = self.find(key)
        if found is None:
            found = make()
            self.keep(key, found, size(found))
        return found
