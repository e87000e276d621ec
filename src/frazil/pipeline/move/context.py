"""The context of a pipeline that all its movers share: settings, lake, store, transaction log, locks and metrics."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from pyiceberg.table import Table

from frazil.backoff import Backoff
from frazil.clock import World
from frazil.config.model import Config
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.ops.breaker import CircuitBreaker
from frazil.ops.retry import backoff_of, retrying
from frazil.pipeline.metrics import PipelineMetrics
from frazil.pipeline.txlog.log import TransactionLog
from frazil.scan.log_extents import LogExtent, LogExtents
from frazil.store import ObjectStore

T = TypeVar("T")

LOCK_SECONDS = 60.0
"""This is how long a mover waits for maintenance of its table. After that both go on, and one of their commits may
fail."""


class TableLocks:
    """One lock per table, so that mover and maintenance do not cause conflicts for each other."""

    def __init__(self) -> None:
        self._locks: defaultdict[Identifier, threading.Lock] = defaultdict(threading.Lock)

    @contextmanager
    def acquire(self, table: Identifier, timeout: float = LOCK_SECONDS) -> Iterator[bool]:
        """Locks the table. Yields False if the other side did not release it in time."""
        lock = self._locks[table]
        ours = lock.acquire(timeout=timeout)
        try:
            yield ours
        finally:
            if ours:
                lock.release()


@dataclass(frozen=True)
class PipelineContext:
    config: Config
    lake: Lake
    store: ObjectStore
    txlog: TransactionLog
    world: World
    metrics: PipelineMetrics
    catalog_breaker: CircuitBreaker
    store_breaker: CircuitBreaker
    application: str
    parallelism: int
    stopping: threading.Event = field(default_factory=threading.Event)
    table_locks: TableLocks = field(default_factory=TableLocks)
    starting: threading.Lock = field(default_factory=threading.Lock)
    """The lock for queries that start, because they must start one after the other. Many processes that start at once
    slow each other down, and two queries that start at once may damage Spark's shared state, so that tasks cannot be
    read any more."""
    committed: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    """The next offsets that each table of a topic needs, as far as this pipeline knows."""
    running: set[tuple[str, str]] = field(default_factory=set)
    """The tables and attempts that this pipeline is working on."""

    @property
    def backoff(self) -> Backoff:
        return backoff_of(self.config.pipeline.retry)

    def note_committed(self, topic: str, table: str, offsets: Mapping[int, int]) -> None:
        self.committed[topic, table] = self.committed.get((topic, table), {}) | dict(offsets)
        for partition, offset in offsets.items():
            self.metrics.committed.labels(topic, table, partition).set(offset)

    def note_opened(self, topic: str, table: Table) -> None:
        """Sets the metric of the table's last commit, whoever made it."""
        snapshot = table.current_snapshot()
        if snapshot is not None:
            self.metrics.last_commit.labels(topic, dotted(table.name())).set(snapshot.timestamp_ms / 1000)

    def call_catalog(self, call: Callable[[], T]) -> T:
        """Calls the catalog through its circuit breaker, and retries errors that may pass."""
        return self._ask(self.catalog_breaker, call)

    def log_extents(self, topic: str) -> dict[int, LogExtent]:
        """Reads the extents of the sealed log without a cache."""
        return self.call_store(lambda: LogExtents(self.store, topic, self.config.data_dir).current(tail=False))

    def call_store(self, call: Callable[[], T]) -> T:
        return self._ask(self.store_breaker, call)

    def _ask(self, breaker: CircuitBreaker, call: Callable[[], T]) -> T:
        return retrying(
            lambda: breaker.call(call),
            self.backoff,
            self.world.rng,
            wait=self.stopping.wait,
            on_retry=lambda error, *_: self.metrics.errors.count(error),
        )
