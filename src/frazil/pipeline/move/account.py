"""Committing one attempt, and writing down what becomes of it, in the transaction log and in the metrics."""

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
from frazil.lake.commit.proposals import Request
from frazil.lake.commit.ranges import Range
from frazil.pipeline.move.tools import Tools

logger = logging.getLogger(__name__)


class Account:
    def __init__(self, tools: Tools, topic: str, table: Table, attempt: str, size: int = 0) -> None:
        """`size` is that of the segments it moves, in bytes."""
        self._tools = tools
        self._topic = topic
        self._table = table
        self._name = dotted(table.name())
        self.attempt = attempt
        self._size = size
        self._began = tools.world.clock.monotonic()

    def __enter__(self) -> Self:
        self._tools.running.add((self._name, self.attempt))
        return self

    def __exit__(self, *_: object) -> None:
        self._tools.running.discard((self._name, self.attempt))

    def begin(self, ranges: tuple[Range, ...]) -> None:
        rows = sum(each.rows for each in ranges)
        self._tools.txlog.flush_start(
            self._topic, self._name, self.attempt, record_count=rows, batch_size=self._size, ranges=ranges
        )

    def abandon(self, reason: str) -> None:
        """No request was sent. The files stay until the attempt is cleaned up."""
        logger.info("a batch is written again", extra={"topic": self._topic, "table": self._name, "reason": reason})

    def commit(self, ranges: tuple[Range, ...], files: tuple[DataFile, ...], tasks: tuple[int, ...]) -> bool:
        """Whether the files are in the table now; False when it has changed, and all must be looked at again."""
        state = TableState.of(self._table)
        attempt = Attempt(
            id=self.attempt,
            ranges=ranges,
            files=files,
            table_uuid=state.uuid,
            schema_id=state.schema_id,
            spec_id=state.spec_id,
            application=self._tools.application,
            tasks=tasks,
        )
        outcome = self._tools.ask_catalog(
            lambda: commit_add_files(
                self._tools.lake,
                self._table,
                attempt,
                on_request=self._request,
                clock=self._tools.world.clock.now_ms,
                pause=self._tools.stopping.wait,
                rng=self._tools.world.rng,
            )
        )
        failpoint("flush.committed")
        if isinstance(outcome, Committed):
            self._committed(attempt, outcome)
        else:
            reason = f"the table has changed: {type(outcome).__name__.lower()}"
            # Its files are still there, so it stays open until they are cleaned up.
            self._tools.txlog.commit_end(
                self._topic, self._name, self.attempt, success=False, reason=reason, retry=True
            )
            self.abandon(reason)
        return isinstance(outcome, Committed)

    def _request(self, request: Request) -> None:
        self._tools.txlog.commit_start(self._topic, self._name, self.attempt, request)
        failpoint("flush.commit-started")

    def _committed(self, attempt: Attempt, outcome: Committed) -> None:
        txlog, metrics = self._tools.txlog, self._tools.metrics
        txlog.commit_end(self._topic, self._name, self.attempt, success=True, snapshot_id=outcome.snapshot_id)
        failpoint("flush.commit-ended")
        for each in attempt.ranges:
            txlog.offset_marker(self._topic, each.partition, each.end, each.rows)
        self._tools.note_committed(self._topic, self._name, {each.partition: each.end for each in attempt.ranges})
        txlog.flush_end(
            self._topic,
            self._name,
            self.attempt,
            snapshot_id=outcome.snapshot_id,
            files_created=len(attempt.files),
        )
        failpoint("flush.ended")
        labels = (self._topic, self._name)
        rows = sum(file.record_count for file in attempt.files)
        metrics.last_commit.labels(*labels).set(self._tools.world.clock.now_ms() / 1000)
        metrics.commits.labels(*labels).inc()
        metrics.files.labels(*labels).inc(len(attempt.files))
        metrics.rows.labels(*labels).inc(rows)
        metrics.bytes.labels(*labels).inc(sum(file.file_size_in_bytes for file in attempt.files))
        seconds = round(self._tools.world.clock.monotonic() - self._began, 3)
        logger.info("committed", extra={"topic": self._topic, "table": self._name, "rows": rows, "seconds": seconds})
