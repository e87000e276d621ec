"""The context of maintenance operations: settings, lake, store, Spark, transaction log and table locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frazil.clock import World
from frazil.config.model import Config
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.maintain.report import Later
from frazil.pipeline.move.context import PipelineContext, TableLocks
from frazil.pipeline.txlog.log import TransactionLog
from frazil.store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_SECONDS = 30.0
"""This is how long maintenance waits for the mover of a table. Batches take seconds, and maintenance can run
later."""


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True)
class MaintenanceContext:
    config: Config
    lake: Lake
    store: ObjectStore
    world: World
    spark: Callable[[], SparkSession]
    """Returns the Spark session, and starts it if there is none. Only operations that need Spark call it."""
    txlog: TransactionLog | None = None
    """The log of what was done. A dry run needs none."""
    table_locks: TableLocks = field(default_factory=TableLocks)
    progress: Callable[[str], None] = _silent
    """A function that is called with a message when something begins that takes a while."""
    lock_seconds: float = LOCK_SECONDS

    @classmethod
    def of(cls, context: PipelineContext, spark: SparkSession) -> MaintenanceContext:
        """Returns the context for maintenance inside a pipeline."""
        return cls(
            config=context.config,
            lake=context.lake,
            store=context.store,
            world=context.world,
            spark=lambda: spark,
            txlog=context.txlog,
            table_locks=context.table_locks,
        )

    @contextmanager
    def exclusive(self, table: Identifier) -> Iterator[None]:
        """Locks the table in this process. Conflicts with other processes are detected by the commit."""
        with self.table_locks.acquire(table, self.lock_seconds) as ours:
            if not ours:
                raise Later(f"{dotted(table)} is being written to")
            yield

    def now_ms(self) -> int:
        return self.world.clock.now_ms()
