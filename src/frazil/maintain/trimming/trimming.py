"""Trimming: deletes segments from the log when every base table of the topic has their records.

The dead-letter table commits before the base table, so it never needs what the base table has. Derived tables and
streams that lag behind read from the base table what the log no longer has. If a base table cannot be trusted,
because it was rolled back, replaced or filled from another log, nothing is trimmed. The settings of a topic may keep
segments for longer, by age and size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table import Table

from frazil.errors import EpochChanged, OffsetsAhead, SegmentsGone, TableRolledBack
from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.offsets import TOPIC, TableState, check_not_rolled_back
from frazil.lake.tables.table_check import TableStatus, check_table
from frazil.lake.tables.tables import base_identifier
from frazil.log.segments.trim import Trimmed, trim
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.report import Amounts, NotOurs, OperationResult
from frazil.maintain.trimming.base_tables import other_base_tables
from frazil.maintain.trimming.log_retention import ListedSegment, kept_from, segments_of
from frazil.scan.consistency import check_against_log
from frazil.scan.log_extents import LogExtents


@dataclass(frozen=True)
class _Partition:
    trimmed: Trimmed
    before: Amounts
    removed: Amounts


class Trimming:
    name = "trim"
    any_version = False

    def __init__(self) -> None:
        self._settled: dict[str, dict[int, int]] = {}
        """The offsets of topics with one base table when nothing was left to do. Nothing is read until they move."""

    def applies(self, target: MaintainedTable) -> bool:
        return target.role == "base"

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        topic = table.metadata.properties[TOPIC]
        if base_identifier(context.config, topic) != table.name():
            raise NotOurs(f"{dotted(table.name())} is not the base table of topic {topic!r} by these settings")
        own = dict(TableState.of(table).offsets)
        if self._settled.get(topic) == own:
            return OperationResult("nothing")
        others = other_base_tables(context, topic, table.name())
        _check(context, topic, table, others)
        needed = _least([own, *(TableState.of(each).offsets for each in others)])
        segments = {partition: segments_of(context.store, topic, partition) for partition in needed}
        kept = kept_from(context.config.topic(topic), segments, context.now_ms())
        partitions = [
            _trim(context, topic, partition, min(offset, kept.get(partition, offset)), segments[partition], dry_run)
            for partition, offset in sorted(needed.items())
        ]
        waiting = sum(len(each.trimmed.waiting) for each in partitions)
        deleted = tuple(key for each in partitions for key in each.trimmed.deleted)
        if not dry_run and not waiting and not deleted and not others and not kept:
            self._settled[topic] = own
        else:
            self._settled.pop(topic, None)
        return OperationResult(
            ("would" if dry_run else "done") if deleted else "nothing",
            _sum([each.before for each in partitions]),
            _sum([each.before for each in partitions], less=[each.removed for each in partitions]),
            note=f"{waiting:,} segments wait for the grace time" if waiting else "",
            removed=_sum([each.removed for each in partitions]),
            items=deleted if dry_run else (),
        )


def _check(context: MaintenanceContext, topic: str, table: Table, others: list[Table]) -> None:
    check = check_table(context.lake, context.store, topic, table.name())
    if check.status is not TableStatus.OK:
        raise NotOurs(f"the log of {topic!r} is kept: {check.error()}")
    extents = LogExtents(context.store, topic, context.config.data_dir).current(tail=False)
    try:
        for each in (table, *others):
            check_not_rolled_back(each)
            check_against_log(TableState.of(each), extents)
    except (TableRolledBack, OffsetsAhead, EpochChanged, SegmentsGone) as error:
        raise NotOurs(f"the log of {topic!r} is kept: {error}") from error


def _least(offsets: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """Returns the lowest offset of each partition. It is 0 if one of the tables does not know the partition."""
    first, *others = offsets
    return {
        partition: min([offset, *(each.get(partition, 0) for each in others)]) for partition, offset in first.items()
    }


def _trim(
    context: MaintenanceContext,
    topic: str,
    partition: int,
    offset: int,
    segments: Sequence[ListedSegment],
    dry_run: bool,
) -> _Partition:
    sizes = {segment.key: segment.size for segment in segments}
    trimmed = trim(
        context.store,
        topic,
        partition,
        needed_from=offset,
        grace_seconds=context.config.log.trim_grace_seconds,
        now_ms=context.now_ms(),
        dry_run=dry_run,
    )
    gone = [sizes.get(key, 0) for key in trimmed.deleted]
    return _Partition(
        trimmed, Amounts(files=len(sizes), bytes=sum(sizes.values())), Amounts(files=len(gone), bytes=sum(gone))
    )


def _sum(amounts: list[Amounts], less: list[Amounts] | None = None) -> Amounts:
    less = less or []
    return Amounts(
        files=sum(each.files or 0 for each in amounts) - sum(each.files or 0 for each in less),
        bytes=sum(each.bytes or 0 for each in amounts) - sum(each.bytes or 0 for each in less),
    )
