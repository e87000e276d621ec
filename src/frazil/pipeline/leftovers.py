"""The files of batches that never came into their table: deleted once nobody can commit them any more.

The transaction log names the attempts, those of this process and of others that are gone; the table tells what became
of them. What cannot be decided in a day is left to the removal of orphans.
"""

from __future__ import annotations

import logging
from functools import partial

from frazil.errors import FrazilError, TableNotFound
from frazil.lake.catalog import Identifier
from frazil.lake.cleanup import Done, cleanup_attempt
from frazil.lake.offsets import named
from frazil.lake.outcomes import find_attempt
from frazil.pipeline.tools import Tools
from frazil.pipeline.txlog.log import Outcome
from frazil.pipeline.txlog.recovery import recover
from frazil.pipeline.txlog.state import OpenAttempt

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 30.0
PATIENCE_MS = 24 * 60 * 60 * 1000


class Leftovers:
    """Belongs to one thread."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._due = float("-inf")

    def clean(self) -> None:
        """Look at all open attempts that nobody works on, if it is time to."""
        clock = self._tools.world.clock
        if clock.monotonic() < self._due:
            return
        self._due = clock.monotonic() + INTERVAL_SECONDS
        for attempt in recover(self._tools.txlog):
            if attempt.key in self._tools.running:
                continue
            try:
                outcome = self._tools.ask_catalog(partial(self._decide, attempt))
            except FrazilError as error:
                logger.warning("leftover files stay", extra={"attempt": attempt.attempt, "reason": str(error)})
                continue
            if outcome is not None:
                self._tools.txlog.resolve(attempt, outcome)

    def _decide(self, attempt: OpenAttempt) -> Outcome | None:
        """What became of an attempt; None while that is not known."""
        identifier: Identifier = tuple(attempt.table.split("."))
        try:
            table = self._tools.lake.load(identifier)
        except TableNotFound:
            return Outcome(False, "its table is gone")
        found = find_attempt(table, attempt.attempt, ())
        if found is not None:
            return Outcome(True, "found in the table", found)
        last = self._tools.txlog.last_commits().get(attempt.table)
        done = [Done(last.attempt, last.ranges)] if last and last.time_ms > attempt.started_ms else []
        cleaned = cleanup_attempt(self._tools.lake, table, attempt.attempt, attempt.ranges, attempt.requests, done)
        if cleaned.kept is None:
            if cleaned.deleted:
                logger.info(
                    "deleted files of a batch that was not committed",
                    extra={"table": named(table), "attempt": attempt.attempt, "files": cleaned.deleted},
                )
            return Outcome(False, f"never committed; {cleaned.deleted} files deleted")
        if self._tools.world.clock.now_ms() - attempt.started_ms > PATIENCE_MS:
            return Outcome(False, f"left to the removal of orphans: {cleaned.kept}")
        return None
