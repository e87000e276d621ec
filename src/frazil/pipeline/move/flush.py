"""Flushes one batch into a table.

The batch is clipped to what the table still needs, tasks write it, and then the dead letters and the rows are
committed. A batch may be started many times, by several processes at once, and is in the table once: each commit
names the offsets it starts from, and is accepted only if the table is at these offsets.

Dead letters are committed first, with offsets of their own. Below its offset the dead-letter table decides: a row
that is in it is left out of the base table, and any other row must fit. So a kill between the two commits neither
loses a row nor puts it into both tables. A batch without dead letters does not touch the dead-letter table, which
therefore lags behind the base table and catches up with the next dead letter.

If records come as bytes, their columns are known only after decoding. Then tasks report which columns the table
lacks, and the batch is written again when the table has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.table import Table

from frazil.errors import FrazilError, TableSchemaMismatch
from frazil.failpoints import failpoint
from frazil.formats.decoding import Decoder
from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.attempts import new_attempt
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.ranges import Range
from frazil.lake.evolution import follow_first, on_mismatch_of, plan_following
from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.move.dead_letters import DeadLetterState, DeadLetterTable
from frazil.pipeline.move.flush_attempt import FlushAttempt
from frazil.pipeline.move.task_reports import WrittenFiles
from frazil.pipeline.move.tasks import MoveJob, TargetTable
from frazil.scan.log_location import LogLocation

Run = Callable[[MoveJob], WrittenFiles]
"""A function that runs a job in Spark's tasks."""


class StartOver(FrazilError):
    """Raised when the table needs earlier offsets than the batch has, so that the stream must restart there."""

    retryable = True


@dataclass(frozen=True)
class Batch:
    """A batch of the stream: the offsets of each partition from `starts` up to `ends`."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    bytes: int = 0
    """The stored size of its segments."""

    def remaining(self, state: TableState) -> tuple[Range, ...]:
        """Returns the ranges that the table still needs. They have no epochs before the records are read."""
        ranges = []
        for partition, end in sorted(self.ends.items()):
            start, needed = self.starts.get(partition, 0), state.offsets.get(partition, 0)
            if needed < start:
                raise StartOver(
                    f"{state.topic}/{partition}: the table needs offset {needed}, but the batch begins at {start}."
                )
            if needed < end:
                ranges.append(Range(partition, needed, end, ""))
        return tuple(ranges)


Move = Callable[[Table, tuple[Range, ...], FlushAttempt], bool]
"""A function that moves ranges into a table. It returns False if the table has changed since it was loaded."""


def flush(context: PipelineContext, topic: str, batch: Batch, load: Callable[[], Table], move: Move) -> None:
    """Moves a batch into a table. Returns when the table is at or past its end, also if somebody else moved it."""
    started = context.world.clock.monotonic()
    while True:
        table = load()
        name = dotted(table.name())
        ranges = batch.remaining(TableState.of(table))
        if not ranges:
            return
        attempt_id = new_attempt(context.world.clock.now_ms(), context.world.rng)
        with (
            context.table_locks.acquire(table.name()),
            FlushAttempt(context, topic, table, attempt_id, batch.bytes) as attempt,
        ):
            done = move(table, ranges, attempt)
        if done:
            seconds = context.world.clock.monotonic() - started
            context.metrics.flushes.labels(topic, name).inc()
            context.metrics.flush_seconds.labels(topic, name).observe(seconds)
            return
        context.metrics.conflicts.labels(topic, name).inc()


@dataclass(frozen=True)
class RecordFormat:
    """The current schema version and decoder of a topic, which may change between batches."""

    schema_version: int
    decoder: Decoder | None


class BaseFlush:
    """Moves batches of one topic into its base table."""

    def __init__(self, context: PipelineContext, place: LogLocation, dead_letters: DeadLetterTable) -> None:
        self._context = context
        self._place = place
        self._dead_letters = dead_letters

    def move(
        self, run: Run, topic: RecordFormat, table: Table, ranges: tuple[Range, ...], attempt: FlushAttempt
    ) -> bool:
        dead = self._dead_letters.load_state(ranges)
        attempt.begin(ranges)
        failpoint("flush.started")
        written = run(
            MoveJob(
                place=self._place,
                target=TargetTable.of(table, attempt.id),
                schema_version=topic.schema_version,
                decoder=topic.decoder,
                now_ms=self._context.world.clock.now_ms(),
                needed={each.partition: each.start for each in ranges},
                dead_letters=TargetTable.of(dead.table, attempt.id) if dead.table else None,
                decided=dead.decided,
                excluded=dead.excluded,
            )
        )
        failpoint("flush.written")
        if written.wanted:
            attempt.abandon("the table lacks columns of these rows")
            self._follow(table, written.wanted)
            return False
        written.check_complete(ranges)
        known = tuple(each._replace(epoch=written.epochs[each.partition]) for each in ranges)
        if written.misfits:
            attempt.abandon(f"{written.misfits} rows do not fit the table and need a dead-letter table first")
            self._dead_letters.create(known)
            return False
        if not self._settle_dead_letters(table, dead, known, written, attempt):
            attempt.abandon("somebody else moved the tables")
            return False
        failpoint("flush.dead-letters-committed")
        return attempt.commit(known, written.files, written.tasks)

    def _follow(self, table: Table, wanted: tuple[pa.Schema, ...]) -> None:
        """Changes the table for rows of these schemas. Raises if nothing changes, to avoid endless tries.

        Of schemas that clash the first is followed. What still clashes is found by the next try: either its records
        become dead letters, or the topic stops and a person decides.
        """
        failpoint("follow.wanted")
        lake = self._context.lake
        after = self._context.call_catalog(lambda: follow_first(lake, table, *wanted))
        failpoint("follow.done")
        if after.metadata.current_schema_id != table.metadata.current_schema_id:
            return
        for rows in wanted:
            # Together the schemas seem to fit, so one of them does not fit by itself.
            plan_following(after, rows)
        raise TableSchemaMismatch(
            f"Table {dotted(table.name())} has the columns of these rows, yet cannot take them: "
            f"{'; '.join(', '.join(f'{column.name} {column.type}' for column in rows) for rows in wanted)}."
        )

    def _settle_dead_letters(
        self,
        table: Table,
        dead: DeadLetterState,
        ranges: tuple[Range, ...],
        written: WrittenFiles,
        attempt: FlushAttempt,
    ) -> bool:
        """Commits the dead letters. Returns False if somebody else has moved the tables.

        A person may have changed what fits since the table was loaded, and then another mover decides differently
        about these rows. Where that can happen, each batch moves the offsets of the dead-letter table, even without
        letters, so that one of two movers notices the other.
        """
        if not written.dead_letters and not (dead.table and on_mismatch_of(table.metadata) == "dead-letter"):
            return True
        return self._unchanged(table) and self._dead_letters.commit(dead, attempt.id, ranges, written)

    def _unchanged(self, table: Table) -> bool:
        now = self._context.call_catalog(lambda: self._context.lake.load(table.name()))
        before, after = TableState.of(table), TableState.of(now)
        return (before.offsets, before.schema_id) == (after.offsets, after.schema_id)
