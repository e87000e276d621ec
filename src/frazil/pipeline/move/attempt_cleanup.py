"""Deletes the files of attempts that were not committed, once nobody can commit them any more.

The transaction log has the attempts of this process and of processes that have ended. The table shows what became of
them. What cannot be decided within a day is left to the removal of orphans.
"""

from __future__ import annotations

import logging
from functools import partial

from frazil.errors import RecoveryFailed, TableNotFound
from frazil.lake.catalog.lake import Identifier, dotted
from frazil.lake.commit.cleanup import OtherCommit, cleanup_attempt
from frazil.lake.commit.offsets import name_of
from frazil.lake.commit.outcomes import find_attempt
from frazil.lake.tables.tables import dead_letter_identifier
from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.txlog.log import Outcome
from frazil.pipeline.txlog.recovery import recover
from frazil.pipeline.txlog.state import OpenAttempt

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 30.0
PATIENCE_MS = 24 * 60 * 60 * 1000


class AttemptCleanup:
    """Cleans up open attempts. Only one thread may use it."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context
        self._due = float("-inf")
        self._told: set[tuple[str, str]] = set()

    def clean(self) -> None:
        """Checks all open attempts that nobody works on. Does nothing if the last time was too recent."""
        clock = self._context.world.clock
        if clock.monotonic() < self._due:
            return
        self._due = clock.monotonic() + INTERVAL_SECONDS
        damage: RecoveryFailed | None = None
        try:
            attempts = recover(self._context.txlog)
        except RecoveryFailed as error:
            # The log of another pipeline that has ended is damaged. All other attempts are cleaned up first.
            damage, attempts = error, self._context.txlog.open_attempts()
        for known in attempts:
            if self._context.stopping.is_set():
                return
            # It may have ended while others were checked. An attempt that nobody works on does not change any more.
            attempt = None if known.key in self._context.running else self._still_open(known)
            if attempt is not None:
                self._look_at(attempt)
        if damage is not None:
            raise damage

    def _still_open(self, attempt: OpenAttempt) -> OpenAttempt | None:
        return next((each for each in self._context.txlog.open_attempts() if each.key == attempt.key), None)

    def _look_at(self, attempt: OpenAttempt) -> None:
        try:
            outcome = self._context.catalog_breaker.call(partial(self._decide, attempt))
        except Exception as error:  # noqa: BLE001 - one that cannot be read must not keep the others waiting
            if attempt.key not in self._told:
                logger.warning("leftover files stay", extra={"attempt": attempt.attempt, "reason": str(error)})
                self._told.add(attempt.key)
            return
        if outcome is not None:
            self._context.txlog.resolve(attempt, outcome)

    def _decide(self, attempt: OpenAttempt) -> Outcome | None:
        """Returns what became of an attempt, or None while that is not known. Deletes its files if that is safe."""
        identifier: Identifier = tuple(attempt.table.split("."))
        try:
            table = self._context.lake.load(identifier)
        except TableNotFound:
            return Outcome(False, "its table is gone")
        found = find_attempt(table, attempt.attempt, ())
        if found is not None:
            return Outcome(True, "found in the table", found)
        last = self._context.txlog.last_commits().get(attempt.table)
        done = [OtherCommit(last.attempt, last.ranges)] if last and last.time_ms > attempt.started_ms else []
        cleaned = cleanup_attempt(self._context.lake, table, attempt.attempt, attempt.ranges, attempt.requests, done)
        if cleaned.kept is None:
            deleted = cleaned.deleted + self._clean_dead_letters(attempt)
            if deleted:
                logger.info(
                    "deleted files of a batch that was not committed",
                    extra={"table": name_of(table), "attempt": attempt.attempt, "files": deleted},
                )
            return Outcome(False, f"never committed; {deleted} files deleted")
        if self._context.world.clock.now_ms() - attempt.started_ms > PATIENCE_MS:
            return Outcome(False, f"left to the removal of orphans: {cleaned.kept}")
        return None

    def _clean_dead_letters(self, attempt: OpenAttempt) -> int:
        """Deletes the attempt's files in the dead-letter table, and returns how many there were.

        The transaction log has them only once they are to be committed, and then as an attempt of their own.
        """
        identifier, txlog = dead_letter_identifier(self._context.config, attempt.topic), self._context.txlog
        name = dotted(identifier)
        last = txlog.last_commits().get(name)
        known = {each.key for each in txlog.open_attempts()} | ({(name, last.attempt)} if last else set())
        if (name, attempt.attempt) in known:
            return 0
        try:
            table = self._context.lake.load(identifier)
        except TableNotFound:
            return 0
        return cleanup_attempt(self._context.lake, table, attempt.attempt, (), ()).deleted
