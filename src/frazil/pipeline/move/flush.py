"""One batch: clip it to what the table still needs, let tasks write it, commit the dead letters, commit the rows.

A batch may be begun many times, by several processes at once, and ends in the table once: each commit names the
offsets it starts from, and the table takes it only if it is there.

Dead letters are committed first, with offsets of their own. Below its offset the dead-letter table decides: a row
that is there is left out of the base table, any other must fit. So a kill between the two commits neither loses a row
nor puts it into both. A batch without dead letters does not touch that table, so it lags behind the base table and
catches up with the next dead letter.

What columns records have that come as bytes is known only when they are decoded: tasks say what the table lacks, and
the batch is written again when it has that.
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
from frazil.scan.log_place import LogPlace

Run = Callable[[MoveJob], WrittenFiles]
"""Runs a job in Spark's tasks."""


class StartOver(FrazilError):
    """Raised when the table is not where the stream is, so that the stream must begin again at the table's offset."""

    retryable = True


@dataclass(frozen=True)
class Batch:
    """What the stream says is next."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    bytes: int = 0
    """Of its segments, as they are stored."""

    def remaining(self, state: TableState) -> tuple[Range, ...]:
        """What of it the table still needs; the epochs are not known before the records are read."""
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
"""Moves ranges into a table as it was loaded; False when that has changed, and they must be looked at again."""


def flush(context: PipelineContext, topic: str, batch: Batch, load: Callable[[], Table], move: Move) -> None:
    """Return when the table is at or past the end of the batch, moved by us or by somebody else."""
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
    """What the records of a topic are, as far as that changes while it is moved."""

    schema_version: int
    decoder: Decoder | None


class BaseFlush:
    """Moves batches of one topic into its base table."""

    def __init__(self, context: PipelineContext, place: LogPlace, dead_letters: DeadLetterTable) -> None:
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
                clip={each.partition: each.start for each in ranges},
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
        """Change the table for rows of these schemas, or raise: it is never tried again with the same table.

        Of those that clash the first is followed. What then still clashes is a fault of its record where types are
        what records show; otherwise it is found by the next try, and a person decides.
        """
        failpoint("follow.wanted")
        lake = self._context.lake
        after = self._context.call_catalog(lambda: follow_first(lake, table, *wanted))
        failpoint("follow.done")
        if after.metadata.current_schema_id != table.metadata.current_schema_id:
            return
        for rows in wanted:
            # Taken together they seem to fit, so one of them does not by itself.
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
        """Commit the letters; False when somebody else was there.

        A person may have changed what fits since the table was loaded: then others have judged these rows anew. Where
        that can happen, each batch moves the dead-letter table, letters or not, so of two movers one finds it moved.
        """
        if not written.dead_letters and not (dead.table and on_mismatch_of(table.metadata) == "dead-letter"):
            return True
        return self._unchanged(table) and self._dead_letters.commit(dead, attempt.id, ranges, written)

    def _unchanged(self, table: Table) -> bool:
        now = self._context.call_catalog(lambda: self._context.lake.load(table.name()))
        before, after = TableState.of(table), TableState.of(now)
        return (before.offsets, before.schema_id) == (after.offsets, after.schema_id)
