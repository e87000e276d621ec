"""Retention: rows past the limit of their table leave it, once all who need them have read them.

Files that hold nothing else are dropped by a change of metadata. A file that also holds younger rows is written again
without the old ones, which is Spark's work; it waits until its oldest row is overdue by a while, so that a file is
not written again at every run as time goes by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import LessThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation as SnapshotOperation
from pyiceberg.table.update import SetPropertiesUpdate
from pyiceberg.table.update.snapshot import _DeleteFiles
from pyiceberg.types import NestedField, PrimitiveType

from frazil.failpoints import failpoint
from frazil.lake.calls import calling
from frazil.lake.catalog import dotted
from frazil.lake.columns import OFFSET, PARTITION
from frazil.lake.completeness import marks
from frazil.lake.offsets import ROLE, named
from frazil.maintain.changes import change
from frazil.maintain.contents import Contents, amounts
from frazil.maintain.holds import Hold, highest_offsets, hold_on, lowest_offset
from frazil.maintain.limits import Limit, limit_of
from frazil.maintain.report import Work
from frazil.maintain.targets import Target
from frazil.maintain.workshop import Workshop


@dataclass(frozen=True)
class Old:
    whole: list[DataFile]
    """All their rows have to go."""
    mixed: list[DataFile]
    """Some have, and cannot wait."""

    def __bool__(self) -> bool:
        return bool(self.whole or self.mixed)


def old_files(files: list[DataFile], limit: Limit) -> Old:
    """By the statistics of the files; one without any is left as it is."""
    found = Old([], [])
    number = limit.field.field_id
    for file in files:
        lower, upper = _bound(file.lower_bounds, limit.field), _bound(file.upper_bounds, limit.field)
        if lower is None or upper is None:
            continue
        if upper < limit.number(limit.moment) and (file.null_value_counts or {}).get(number) == 0:
            found.whole.append(file)
        elif lower < limit.number(limit.overdue):
            found.mixed.append(file)
    return found


def _bound(bounds: dict[int, bytes] | None, field: NestedField) -> Any:
    stored = (bounds or {}).get(field.field_id)
    assert isinstance(field.field_type, PrimitiveType)
    return None if stored is None else from_bytes(field.field_type, stored)


class Retention:
    name = "retention"
    any_version = False

    def applies(self, target: Target) -> bool:
        return True

    def run(self, shop: Workshop, table: Table, dry_run: bool) -> Work:
        limit = limit_of(table, shop.config, shop.now_ms())
        if limit is None:
            return Work("nothing")
        files = Contents().data_files(table)
        before = amounts(files)
        found = old_files(files, limit)
        if not found:
            return Work("nothing", before, before)
        hold = hold_on(shop, table)
        old = _released(table, found, hold)
        note = f"rows with {limit.field.name} before {limit.text}{_waiting(found, old, hold)}"
        if not old:
            return Work("skipped", before, before, note)
        if dry_run:
            dropped = {file.file_path for file in old.whole}
            after = amounts(file for file in files if file.file_path not in dropped)
            rewritten = f"; {len(old.mixed)} files are written again without them" if old.mixed else ""
            return Work("would", before, after, note + rewritten, items=tuple(sorted(dropped)))
        first = table.metadata.current_snapshot_id
        with shop.turn(table.name()):
            if old.whole:
                table = drop_files(shop, table, old.whole, limit)
            if old.mixed:
                table = _delete_rows(shop, table, limit, hold)
        done = table.metadata.current_snapshot_id != first
        return Work("done" if done else "nothing", before, amounts(Contents().data_files(table)), note)


def _released(table: Table, old: Old, hold: Hold | None) -> Old:
    """Without the files whose rows somebody has not read yet."""
    if hold is None:
        return old
    with calling(f"Reading offsets of table {named(table)}"):
        whole = [file for file in old.whole if hold.releases(highest_offsets(table, file))]
    mixed = [
        file for file in old.mixed if (lowest := lowest_offset(table, file)) is None or hold.releases(dict([lowest]))
    ]
    return Old(whole, mixed)


def _waiting(found: Old, released: Old, hold: Hold | None) -> str:
    held = len(found.whole) + len(found.mixed) - len(released.whole) - len(released.mixed)
    if not held or hold is None:
        return ""
    return (
        f"; {held} files with such rows stay until they have been read by {hold.reason}. Mend what keeps it behind; "
        f"a derived table that nobody needs can be dropped"
    )


def drop_files(shop: Workshop, table: Table, files: list[DataFile], limit: Limit) -> Table:
    with calling(f"Writing manifests of table {named(table)}"):
        deletion = _DeleteFiles(
            operation=SnapshotOperation.DELETE,
            transaction=Transaction(table),
            io=table.io,
            branch=MAIN_BRANCH,
        )
        # The predicate finds the manifests; which files go was decided on more than that.
        deletion.delete_by_predicate(LessThan(term=Reference(limit.field.name), value=literal(limit.text)))
        deletion._planned_delete_files = set(files)
        updates, _ = deletion._commit()
        highest = _highest(highest_offsets(table, file) for file in files) if _is_base(table) else {}
    return change(shop.lake, table, [*updates, *_marking(table, highest)])


def _delete_rows(shop: Workshop, table: Table, limit: Limit, hold: Hold | None) -> Table:
    from frazil.maintain.sparkwork import asking_spark, settle, sql_name

    identifier = table.name()
    shop.say(f"deleting old rows of {dotted(identifier)}")
    column = ".".join(f"`{part}`" for part in limit.field.name.split("."))
    where = f"{column} < {limit.sql}" + (f" AND {hold.sql}" if hold is not None else "")
    name = sql_name(shop.config, identifier)
    if hold is not None:
        with asking_spark("Looking for old rows of", identifier):
            rows = (
                shop.spark().sql(f"SELECT {PARTITION}, max({OFFSET}) FROM {name} WHERE {where} GROUP BY 1").collect()
            )
        if not rows:
            return table
        # Before the rows go: who is killed in between has said too much, never too little.
        if updates := _marking(table, {row[0]: row[1] for row in rows if row[0] is not None}):
            table = change(shop.lake, table, updates)
        failpoint("retention.marked")
    with asking_spark("Deleting old rows of", identifier):
        shop.spark().sql(f"DELETE FROM {name} WHERE {where}")
    after = shop.lake.load(identifier)
    old = {file.file_path for file in Contents().data_files(table)}
    settle(table, after, [file.file_path for file in Contents().data_files(after) if file.file_path not in old])
    return after


def _is_base(table: Table) -> bool:
    return table.metadata.properties.get(ROLE, "base") == "base"


def _marking(table: Table, highest: Mapping[int, int]) -> list[SetPropertiesUpdate]:
    """Those who follow a topic read its base table by offsets, and nobody any other."""
    properties = marks(table, highest) if _is_base(table) else {}
    return [SetPropertiesUpdate(updates=properties)] if properties else []


def _highest(each: Iterable[Mapping[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for offsets in each:
        for partition, offset in offsets.items():
            found[partition] = max(offset, found.get(partition, 0))
    return found
