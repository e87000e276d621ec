"""Plans retention for tables that are followed by offset: rows are removed from the front of their partitions.

Rows are removed once all readers have read them. Retention waits for subscriptions up to a limit of their own, and
for derived tables as long as it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import TOPIC, TableState, name_of
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.retention.keep_offsets import (
    ExpiredRows,
    FileOffsetBounds,
    FileRows,
    KeepOffsets,
    find_expired,
    highest,
    lowest,
    rows_of_files,
)
from frazil.maintain.retention.limits import RetentionLimits
from frazil.maintain.retention.plan import RetentionPlan, time_range
from frazil.maintain.retention.read_progress import ReadProgress, read_progress
from frazil.maintain.retention.subscriptions import subscription_progress
from frazil.maintain.rewrite.old_rows import OldRows
from frazil.topics.names import parse_name


def plan_by_offset(
    context: MaintenanceContext,
    table: Table,
    files: list[DataFile],
    limits: RetentionLimits,
    known: FileOffsetBounds | None = None,
) -> RetentionPlan:
    """Plans which files and rows are removed. `known` caches the offsets that were read from files."""
    if not _concerns(files, limits):
        return RetentionPlan()
    ends = TableState.of(table).offsets
    with calling(f"Reading offsets of table {name_of(table)}"):
        file_rows = rows_of_files(table, files, limits.field, {} if known is None else known)
        found = find_expired(table, file_rows, limits.bounds, ends)
    if not _going(file_rows, found, found.keep):
        return RetentionPlan()
    readers = read_progress(context, table)
    assert readers is not None, "the table is a base table"
    name = parse_name(table.metadata.properties[TOPIC], context.config.lake.namespace)
    subscribers = subscription_progress(context.store, name, ends)
    waited_for = [each for each in file_rows if not each.is_below(subscribers.below)]
    with calling(f"Reading offsets of table {name_of(table)}"):
        unwaited = find_expired(table, waited_for, limits.waiting, ends).keep if subscribers.behind else {}
    keep = lowest(found.keep, lowest(readers.below, highest(subscribers.below, unwaited)))
    going = _going(file_rows, found, keep)
    return RetentionPlan(
        whole=[each.file for each in going if each.is_below(keep)],
        mixed=[each.file for each in going if not each.is_below(keep)],
        where=_sql(keep),
        old=OldRows(below=dict(keep)),
        held=len(_going(file_rows, found, found.keep)) - len(going),
        waits=_waits(readers, subscribers),
    )


def _concerns(files: list[DataFile], limits: RetentionLimits) -> bool:
    """Returns whether anything may be past the limits, without reading any file."""
    age, size = limits.bounds.age, limits.bounds.size
    if size is not None and sum(file.file_size_in_bytes for file in files) > size:
        return True
    if age is None:
        return False
    oldest = (time_range(file, age.field)[0] for file in files)
    return any(each is not None and each < age.number(age.moment) for each in oldest)


def _going(file_rows: Sequence[FileRows], found: ExpiredRows, keep: KeepOffsets) -> list[FileRows]:
    """Returns the files that are removed as a whole, and those that are rewritten without rows below `keep`."""
    mixed = {each.file.file_path for each in found.overdue if each.begins_below(keep)}
    return [each for each in file_rows if each.is_below(keep) or each.file.file_path in mixed]


def _sql(keep: Mapping[int, int]) -> str:
    return " OR ".join(
        f"({PARTITION} = {partition} AND {OFFSET} < {offset})" for partition, offset in sorted(keep.items()) if offset
    )


def _waits(readers: ReadProgress, subscribers: ReadProgress) -> str:
    parts = []
    if readers.behind:
        parts.append(f"{readers.reason}. Mend what keeps it behind; a derived table that nobody needs can be dropped")
    if subscribers.behind:
        parts.append(
            f"{subscribers.reason}. Let it catch up, delete it if nobody needs it, or set "
            f"subscription_retention_days or subscription_retention_gb to wait no longer than that"
        )
    return "; and by ".join(parts)
