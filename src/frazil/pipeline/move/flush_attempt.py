"""Commits one attempt to flush a batch, and records its progress in the transaction log and the metrics."""

from __future__ import annotations

import logging
from typing import Self

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from frazil.failpoints import failpoint
from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.attempts import Attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.outcomes import Committed
from frazil.lake.commit.proposals import CommitRequest
from frazil.lake.commit.ranges import Range
from frazil.pipeline.move.context import PipelineContext

logger = logging.getLogger(__name__)


class FlushAttempt:
    def __init__(self, context: PipelineContext, topic: str, table: Table, attempt: str, size: int = 0) -> None:
        """`size` is the size of the segments that the attempt moves, in bytes."""
        self._context = context
        self._topic = topic
        self._table = table
        self._name = dotted(table.name())
        self.id = attempt
        self._size = size
        self._began = context.world.clock.monotonic()

    def __enter__(self) -> Self:
        self._context.running.add((self._name, self.id))
        return self

    def __exit__(self, *_: object) -> None:
        self._context.running.discard((self._name, self.id))

    def begin(self, ranges: tuple[Range, ...]) -> None:
        rows = sum(each.rows for each in ranges)
        self._context.txlog.flush_start(
            self._topic, self._name, self.id, record_count=rows, batch_size=self._size, ranges=ranges
        )

    def abandon(self, reason: str) -> None:
        """Logs that the attempt is given up before its commit. Its files stay until it is cleaned up."""
        logger.info("a batch is written again", extra={"topic": self._topic, "table": self._name, "reason": reason})

    def commit(self, ranges: tuple[Range, ...], files: tuple[DataFile, ...], tasks: tuple[int, ...]) -> bool:
        """Commits the files. Returns False if the table has changed, so that the batch must be planned again."""
        state = TableState.of(self._table)
        attempt = Attempt(
            id=self.id,
            ranges=ranges,
            files=files,
            table_uuid=state.uuid,
            schema_id=state.schema_id,
            spec_id=state.spec_id,
            application=self._context.application,
            tasks=tasks,
        )
        outcome = self._context.call_catalog(
            lambda: commit_add_files(
                self._context.lake,
                self._table,
                attempt,
                on_request=self._request,
                clock=self._context.world.clock.now_ms,
                pause=self._context.stopping.wait,
                rng=self._context.world.rng,
            )
        )
        failpoint("flush.committed")
        if isinstance(outcome, Committed):
            self._committed(attempt, outcome)
        else:
            reason = f"the table has changed: {type(outcome).__name__.lower()}"
            # The files still exist, so the attempt stays open until they are cleaned up.
            self._context.txlog.commit_end(self._topic, self._name, self.id, success=False, reason=reason, retry=True)
            self.abandon(reason)
        return isinstance(outcome, Committed)

    def _request(self, request: CommitRequest) -> None:
        self._context.txlog.commit_start(self._topic, self._name, self.id, request)
        failpoint("flush.commit-started")

    def _committed(self, attempt: Attempt, outcome: Committed) -> None:
        txlog, metrics = self._context.txlog, self._context.metrics
        txlog.commit_end(self._topic, self._name, self.id, success=True, snapshot_id=outcome.snapshot_id)
        failpoint("flush.commit-ended")
        for each in attempt.ranges:
            txlog.offset_marker(self._topic, each.partition, each.end, each.rows)
        self._context.note_committed(self._topic, self._name, {each.partition: each.end for each in attempt.ranges})
        txlog.flush_end(
            self._topic,
            self._name,
            self.id,
            snapshot_id=outcome.snapshot_id,
            files_created=len(attempt.files),
        )
        failpoint("flush.ended")
        labels = (self._topic, self._name)
        rows = sum(file.record_count for file in attempt.files)
        metrics.last_commit.labels(*labels).set(self._context.world.clock.now_ms() / 1000)
        metrics.commits.labels(*labels).inc()
        metrics.files.labels(*labels).inc(len(attempt.files))
        metrics.rows.labels(*labels).inc(rows)
        metrics.bytes.labels(*labels).inc(sum(file.file_size_in_bytes for file in attempt.files))
        seconds = round(self._context.world.clock.monotonic() - self._began, 3)
        logger.info("committed", extra={"topic": self._topic, "table": self._name, "rows": rows, "seconds": seconds})
