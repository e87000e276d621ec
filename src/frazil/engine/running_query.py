"""Is one query while a process answers it: what it may use, what it cost so far, and when it must stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.engine.interface import QueryStatistics
from frazil.engine.limits import Limit, QueryLimits
from frazil.engine.memory import LruCache, MemoryBudget
from frazil.engine.scanner import QueryScanner, open_scanner
from frazil.engine.tail_transfer import TailsOf
from frazil.errors import FrazilError, QueriesBusy, QueryTimeout, QueryTooLarge, RequestCancelled
from frazil.lake.catalog.lake import Lake
from frazil.scan.interface import Scanner

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Resources:
    """Is what all queries of one process share."""

    def __init__(self, config: Config, memory: MemoryBudget, tails_of: TailsOf) -> None:
        self.config = config
        self.memory = memory
        self.lake = Lake(config)
        self.scanner = open_scanner(config, self.lake, tails_of)
        self._lock = threading.Lock()
        self._made: dict[object, Any] = {}

    def once(self, key: object, make: Callable[[Resources], T]) -> T:
        """Returns what was made under the key; the first query makes it. It lives as long as the process."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make(self)
            made: T = self._made[key]
            return made

    def open_catalog(self) -> None:
        """Opens the catalog in advance. A query fails with the reason if that does not work then either."""
        try:
            self.lake.check()
        except FrazilError as error:
            logger.debug("the catalog could not be opened in advance", extra={"reason": str(error)})


class RunningQuery:
    """Implements `QueryContext`. The thread of the query uses it; any thread may stop it."""

    def __init__(self, resources: Resources, limits: QueryLimits, queue_seconds: float) -> None:
        self.resources = resources
        self.config = resources.config
        self.limits = limits
        self.statistics = QueryStatistics(queue_seconds=queue_seconds)
        self.cache = CountedCache(resources.memory.cache, self.statistics)
        self.deadline = time.monotonic() + limits.timeout_seconds.value
        self.ended = False
        """Whether the answer is made, so that nothing of it can be stopped any more."""
        self._cancelled = False
        self._held = 0
        self._scanner: QueryScanner | None = None
        self._stoppers: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def scanner(self) -> Scanner:
        if self._scanner is None:
            self._scanner = QueryScanner(self.resources.scanner, self.check)
        return self._scanner

    @property
    def late(self) -> bool:
        """Returns whether the time of the query is over."""
        return time.monotonic() >= self.deadline

    def check(self) -> None:
        """Raises an error if the client has gone, or the query has taken more than it may."""
        if self._cancelled:
            raise RequestCancelled("Nobody waits for the answer any more.")
        if self.late:
            raise timed_out(self.limits)
        self.count_scans()
        limits, cost = self.limits, self.statistics
        if limits.max_read_mb is not None and cost.bytes_read > limits.max_read_mb.value * MIB:
            raise QueryTooLarge(
                f"The query reads more than {limits.max_read_mb.value:,.0f} MiB ({limits.max_read_mb.setting}). Ask "
                f"for a shorter time or for fewer rows."
            )
        if limits.max_rows_out is not None and cost.rows_out > limits.max_rows_out.value:
            raise QueryTooLarge(
                f"The answer has more than {limits.max_rows_out.value:,.0f} rows ({limits.max_rows_out.setting}). "
                f"Ask for a shorter time, a longer step or fewer series."
            )

    def count_scans(self) -> None:
        """Adds to the statistics what scans have read until now."""
        if self._scanner is not None:
            self._scanner.count(self.statistics)

    def hold(self, nbytes: int) -> None:
        """Counts memory that the query keeps until it ends."""
        memory = self.resources.memory
        limit = min(self.limits.max_memory_mb, Limit(memory.total // MIB, "half of query.memory_mb"))
        if self._held + nbytes > limit.value * MIB:
            raise QueryTooLarge(
                f"The query needs more than {limit.value:,.0f} MiB of memory ({limit.setting}). Ask for a shorter "
                f"time or for fewer series."
            )
        if not memory.hold(nbytes):
            raise QueriesBusy(
                f"The queries that run now need all {memory.total // MIB:,} MiB of a process "
                f"(half of query.memory_mb). Ask again later."
            )
        self._held += nbytes

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Has `stop` called, by another thread, when the query must end at once. It is for work that cannot call
        `check`."""
        with self._lock:
            self._stoppers.append(stop)
            late = self._cancelled
        if late:
            stop()

    def cancel(self) -> None:
        """Makes the query end, because nobody waits for it."""
        with self._lock:
            self._cancelled = True
        self.interrupt()

    def interrupt(self) -> None:
        """Stops work that cannot call `check`."""
        with self._lock:
            stoppers = list(self._stoppers)
        for stop in stoppers:
            stop()

    def end(self) -> None:
        self.resources.memory.release(self._held)
        self._held = 0


def timed_out(limits: QueryLimits) -> QueryTimeout:
    limit = limits.timeout_seconds
    return QueryTimeout(f"The query took longer than {limit.value:g} seconds ({limit.setting}). Ask for less.")


class CountedCache:
    """Counts for one query what it finds in the cache of the process."""

    def __init__(self, cache: LruCache, statistics: QueryStatistics) -> None:
        self._cache = cache
        self._statistics = statistics

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        found = True

        def made() -> T:
            nonlocal found
            found = False
            return make()

        value = self._cache.get(key, made, size)
        if found:
            self._statistics.cache_hits += 1
        else:
            self._statistics.cache_misses += 1
        return value
