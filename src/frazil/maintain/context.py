"""What maintenance works with: tables, log, Spark when it is needed, and its turn at a table."""

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
"""How long maintenance waits for the mover of its table. Batches take seconds, and there is a next time."""


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True)
class MaintenanceContext:
    config: Config
    lake: Lake
    store: ObjectStore
    world: World
    spark: Callable[[], SparkSession]
    """Starts a session if there is none: only what cannot be done without one asks for it."""
    txlog: TransactionLog | None = None
    """Where what was done is written down; a dry run needs none."""
    table_locks: TableLocks = field(default_factory=TableLocks)
    progress: Callable[[str], None] = _silent
    """Told what takes a while when it begins."""
    lock_seconds: float = LOCK_SECONDS

    @classmethod
    def of(cls, context: PipelineContext, spark: SparkSession) -> MaintenanceContext:
        """The workshop inside a pipeline."""
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
        """Have the table to ourselves, as far as this process goes; others are met at the commit."""
        with self.table_locks.acquire(table, self.lock_seconds) as ours:
            if not ours:
                raise Later(f"{dotted(table)} is being written to")
            yield

    def now_ms(self) -> int:
        return self.world.clock.now_ms()
