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
from frazil.pipeline.move.tools import Tools, Turns
from frazil.pipeline.txlog.log import TransactionLog
from frazil.store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TURN_SECONDS = 30.0
"""How long maintenance waits for the mover of its table. Batches take seconds, and there is a next time."""


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True)
class Workshop:
    config: Config
    lake: Lake
    store: ObjectStore
    world: World
    spark: Callable[[], SparkSession]
    """Starts a session if there is none: only what cannot be done without one asks for it."""
    txlog: TransactionLog | None = None
    """Where what was done is written down; a dry run needs none."""
    turns: Turns = field(default_factory=Turns)
    say: Callable[[str], None] = _silent
    """Told what takes a while when it begins."""
    turn_seconds: float = TURN_SECONDS

    @classmethod
    def of(cls, tools: Tools, spark: SparkSession) -> Workshop:
        """The workshop inside a pipeline."""
        return cls(
            config=tools.config,
            lake=tools.lake,
            store=tools.store,
            world=tools.world,
            spark=lambda: spark,
            txlog=tools.txlog,
            turns=tools.turns,
        )

    @contextmanager
    def turn(self, table: Identifier) -> Iterator[None]:
        """Have the table to ourselves, as far as this process goes; others are met at the commit."""
        with self.turns.take(table, self.turn_seconds) as ours:
            if not ours:
                raise Later(f"{dotted(table)} is being written to")
            yield

    def now_ms(self) -> int:
        return self.world.clock.now_ms()
