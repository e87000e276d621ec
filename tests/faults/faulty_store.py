"""An object store that fails at random, as one seed decides."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from frazil.errors import ObjectExists, StorageUnavailable
from frazil.store import ObjectInfo, ObjectStore


@dataclass(frozen=True)
class Faults:
    """The probability of each fault per call. They exclude each other, so their sum is at most 1."""

    before: float = 0.0
    """The call fails and does nothing."""

    after: float = 0.0
    """The call does its work and fails, like a lost acknowledgement. A listing ends early."""

    delayed: float = 0.0
    """A put fails, and is done by the next `release_delayed`. Other calls fail without doing anything."""

    slow: float = 0.0
    """The call is done after a sleep of up to `slow_seconds`."""

    slow_seconds: float = 1.0


NO_FAULTS = Faults()


class FaultyStore:
    """An object store with faults.

    Set `down` to make every call fail, and `faults` to change the faults from now on.
    """

    def __init__(
        self,
        inner: ObjectStore,
        rng: random.Random,
        faults: Faults = NO_FAULTS,
        sleep: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.faults = faults
        self.down = False
        self._inner = inner
        self._rng = rng
        self._sleep = sleep
        self._lock = threading.Lock()
        self._delayed: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        return f"faulty {self._inner.url}"

    def put_new(self, key: str, data: bytes | memoryview | pa.Buffer) -> None:
        fault = self._fault()
        if fault == "delayed":
            with self._lock:
                self._delayed.append((key, bytes(memoryview(data))))
        if fault in {"before", "delayed"}:
            raise _unavailable("put", key, fault)
        self._inner.put_new(key, data)
        if fault == "after":
            raise _unavailable("put", key, fault)

    def release_delayed(self) -> list[str]:
        """Does the delayed puts in random order, and returns the keys of those that did not exist."""
        with self._lock:
            arriving, self._delayed = self._delayed, []
            self._rng.shuffle(arriving)
        stored = []
        for key, data in arriving:
            with suppress(ObjectExists):
                self._inner.put_new(key, data)
                stored.append(key)
        return stored

    def get(self, key: str) -> pa.Buffer:
        self._fail_or_sleep("get", key)
        return self._inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> pa.Buffer:
        self._fail_or_sleep("get", key)
        return self._inner.get_range(key, start, length)

    def get_tail(self, key: str, length: int) -> tuple[pa.Buffer, int]:
        self._fail_or_sleep("get", key)
        return self._inner.get_tail(key, length)

    def list(self, prefix: str, after: str | None = None) -> Iterator[ObjectInfo]:
        fault = self._fault()
        if fault in {"before", "delayed"}:
            raise _unavailable("list", prefix, fault)
        found = self._inner.list(prefix, after)
        return self._broken_off(prefix, found) if fault == "after" else found

    def list_folders(self, prefix: str) -> Sequence[str]:
        self._fail_or_sleep("list", prefix)
        return self._inner.list_folders(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        every = [*keys]
        fault = self._fault()
        if fault in {"before", "delayed"}:
            raise _unavailable("delete", str(every), fault)
        self._inner.delete(every)
        if fault == "after":
            raise _unavailable("delete", str(every), fault)

    def _broken_off(self, prefix: str, found: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        every = [*found]
        with self._lock:
            shown = self._rng.randint(0, len(every))
        yield from every[:shown]
        raise _unavailable("list", prefix, "after")

    def _fail_or_sleep(self, operation: str, key: str) -> None:
        """Fails or sleeps in calls that change nothing, where failing before or after is the same."""
        fault = self._fault()
        if fault is not None:
            raise _unavailable(operation, key, fault)

    def _fault(self) -> str | None:
        """Returns the fault of one call. A slow call has slept when this returns, and has no other fault."""
        if self.down:
            return "before"
        faults = self.faults
        with self._lock:
            drawn, nap = self._rng.random(), self._rng.random()
        for name, likely in (("before", faults.before), ("after", faults.after), ("delayed", faults.delayed)):
            if drawn < likely:
                return name
            drawn -= likely
        if drawn < faults.slow:
            self._sleep(nap * faults.slow_seconds)
        return None


def _unavailable(operation: str, key: str, fault: str) -> StorageUnavailable:
    return StorageUnavailable(f"{operation} {key!r}: injected fault ({fault}).")
