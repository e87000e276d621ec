"""Fills the dead-letter table of a topic with records that cannot become rows, with their bytes and the reason."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial

from pyiceberg.table import Table

from frazil.errors import TableNotFound
from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.commit.ranges import Range
from frazil.lake.evolution import follow_dead_letters
from frazil.lake.tables.opening import open_dead_letter_table
from frazil.lake.tables.tables import dead_letter_identifier
from frazil.log.schema.columns import OFFSET
from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.move.flush_attempt import FlushAttempt
from frazil.pipeline.move.task_reports import WrittenFiles
from frazil.scan.consistency import check_against_log
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.table_files import offset_filter, read_rows

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeadLetterState:
    """Holds what the dead-letter table has decided about the ranges of a batch."""

    table: Table | None = None
    decided: dict[int, int] = field(default_factory=dict)
    """This has, by partition, the offset below which the table has decided which records are dead letters."""
    excluded: dict[int, list[int]] = field(default_factory=dict)
    """These are, by partition, the offsets of the batch that are dead letters already."""


class DeadLetterTable:
    def __init__(self, context: PipelineContext, topic: str) -> None:
        self._context = context
        self._topic = topic
        self._identifier = dead_letter_identifier(context.config, topic)

    def load_state(self, ranges: tuple[Range, ...]) -> DeadLetterState:
        """Loads the table's decisions about these ranges. Its rows are read only if it is ahead of the ranges."""
        try:
            table = self._context.call_catalog(lambda: self._context.lake.load(self._identifier))
        except TableNotFound:
            return DeadLetterState()
        check_not_rolled_back(table)
        table = self._context.call_catalog(partial(follow_dead_letters, self._context.lake, table))
        state = TableState.of(table)
        decided = {each.partition: state.offsets.get(each.partition, 0) for each in ranges}
        ahead = [each for each in ranges if decided[each.partition] > each.start]
        if ahead:
            # The table decides about these records, so it must have been filled from this log.
            check_against_log(state, self._context.log_extents(self._topic))
        excluded = {
            each.partition: self._context.call_catalog(partial(_offsets, table, each, decided[each.partition]))
            for each in ahead
        }
        return DeadLetterState(table, decided, excluded)

    def create(self, ranges: tuple[Range, ...]) -> None:
        """Creates the table. It begins at the offsets of the base table."""
        self._context.call_catalog(
            lambda: open_dead_letter_table(
                self._context.lake,
                self._context.store,
                self._context.config,
                self._topic,
                offsets={each.partition: each.start for each in ranges},
                epochs={each.partition: each.epoch for each in ranges if each.epoch},
            )
        )

    def commit(
        self, state: DeadLetterState, attempt_id: str, ranges: tuple[Range, ...], written: WrittenFiles
    ) -> bool:
        """Commits the letters and moves the table's offsets to the end of the batch.

        Returns whether that succeeded.
        """
        table = state.table
        assert table is not None
        moved = tuple(
            each._replace(start=state.decided[each.partition])
            for each in ranges
            if state.decided[each.partition] < each.end
        )
        if not moved:
            return True
        with FlushAttempt(self._context, self._topic, table, attempt_id) as attempt:
            attempt.begin(moved)
            if not attempt.commit(moved, written.dead_letters, written.tasks):
                return False
        if not written.dead_rows:
            return True
        self._context.metrics.dead_letters.labels(self._topic).inc(written.dead_rows)
        logger.warning(
            "records that could not become rows went to the dead-letter table",
            extra={"topic": self._topic, "table": dotted(self._identifier), "rows": written.dead_rows},
        )
        return True


def _offsets(table: Table, moved: Range, decided: int) -> list[int]:
    """Returns the offsets of the range that are in the table, in order."""
    end = min(moved.end, decided)
    wanted = offset_filter({moved.partition: OffsetRange(moved.start, end)})
    return sorted(
        offset for batch in read_rows(table, (OFFSET,), wanted) for offset in batch.column(OFFSET).to_pylist()
    )
