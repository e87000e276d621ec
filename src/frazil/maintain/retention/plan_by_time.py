"""Plans retention for other tables: rows are removed by a time column, in whatever order they are."""

from __future__ import annotations

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, LessThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import name_of
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.retention.limits import AgeLimit, RetentionLimits
from frazil.maintain.retention.plan import RetentionPlan, time_range
from frazil.maintain.retention.read_progress import ReadProgress, highest_offsets, lowest_offset, read_progress
from frazil.maintain.rewrite.old_rows import OldRows


def plan_by_time(
    context: MaintenanceContext, table: Table, files: list[DataFile], limits: RetentionLimits
) -> RetentionPlan:
    whole, mixed = old_files(files, limits.bounds.age) if limits.bounds.age is not None else ([], [])
    surplus = _surplus(files, limits) if limits.bounds.size is not None else []
    known = {file.file_path for file in whole}
    whole += (file for file in surplus if file.file_path not in known)
    going = {file.file_path for file in whole}
    mixed = [file for file in mixed if file.file_path not in going]
    if not whole and not mixed:
        return RetentionPlan()
    progress = read_progress(context, table)
    free_whole, free_mixed = _released(table, whole, mixed, progress) if progress is not None else (whole, mixed)
    manifests: BooleanExpression = AlwaysTrue()
    where, old = "", OldRows()
    if (age := limits.bounds.age) is not None:
        column = ".".join(f"`{part}`" for part in age.field.name.split("."))
        where = f"{column} < {age.sql}" + (f" AND {progress.sql}" if progress is not None else "")
        below = None if progress is None else dict(progress.below)
        old = OldRows(age.field.field_id, age.number(age.moment), below, from_elsewhere=True)
        if not surplus:
            manifests = LessThan(term=Reference(age.field.name), value=literal(age.text))
    return RetentionPlan(
        free_whole,
        free_mixed,
        where,
        old,
        manifests,
        held=len(whole) + len(mixed) - len(free_whole) - len(free_mixed),
        waits=_waits(progress),
    )


def old_files(files: list[DataFile], limit: AgeLimit) -> tuple[list[DataFile], list[DataFile]]:
    """Returns the files with only old rows, and those with overdue rows. Files without statistics are left out."""
    whole, mixed = [], []
    for file in files:
        lower, upper = time_range(file, limit.field)
        if upper is not None and upper < limit.number(limit.moment):
            whole.append(file)
        elif lower is not None and lower < limit.number(limit.overdue):
            mixed.append(file)
    return whole, mixed


def _surplus(files: list[DataFile], limits: RetentionLimits) -> list[DataFile]:
    """Returns the oldest files, as many as the table can lose and still have its maximal size."""
    assert limits.bounds.size is not None
    dated = [(upper, file) for file in files if (upper := time_range(file, limits.field)[1]) is not None]
    left = sum(file.file_size_in_bytes for file in files)
    found = []
    for _, file in sorted(dated, key=lambda each: (each[0], each[1].file_path)):
        left -= file.file_size_in_bytes
        if left < limits.bounds.size:
            break
        found.append(file)
    return found


def _released(
    table: Table, whole: list[DataFile], mixed: list[DataFile], progress: ReadProgress
) -> tuple[list[DataFile], list[DataFile]]:
    """Returns the files without those whose rows somebody has not read yet."""
    with calling(f"Reading offsets of table {name_of(table)}"):
        free = [file for file in whole if progress.has_passed(highest_offsets(table, file))]
    return free, [
        file
        for file in mixed
        if (lowest := lowest_offset(table, file)) is None or progress.has_passed(dict([lowest]))
    ]


def _waits(progress: ReadProgress | None) -> str:
    if progress is None:
        return ""
    return f"{progress.reason}. Mend what keeps it behind; a derived table that nobody needs can be dropped"
