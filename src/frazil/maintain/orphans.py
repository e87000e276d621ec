"""Orphan removal: deletes files in a table's folder that no snapshot refers to.

They were left by attempts that were killed or lost their race. A young file may belong to a commit that is still
under way, so it stays. Before anything is deleted, all files that the table refers to must be in the listing: if
table and listing write file names differently, no deletion is safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyiceberg.table import Table

from frazil.config.sections.maintenance import OrphansConfig
from frazil.errors import IcebergError, TableNotFound
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.commit.offsets import name_of
from frazil.lake.tables.creation import is_temporary
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.files import ListedFile, TableFiles, normalized_path
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.manifest_reader import ManifestReader
from frazil.maintain.metadata_updates import CATALOG_COLLECTS_GARBAGE, collects_garbage
from frazil.maintain.pending_deletions import FOLDER
from frazil.maintain.report import Amounts, NotOurs, OperationResult
from frazil.maintain.unfinished_tables import drop_unfinished, unfinished_tables

_FOLDERS = ("data", "metadata")
_METADATA = ".metadata.json"
_SHOWN = 3
_HOUR_MS = 3_600_000


class OrphanRemoval:
    name = "orphans"
    any_version = False

    def __init__(self, config: OrphansConfig) -> None:
        self._config = config

    def applies(self, target: MaintainedTable) -> bool:
        return True

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        names = unfinished_tables(context.lake, table, context.now_ms())
        if names and not dry_run:
            drop_unfinished(context.lake, table, names)
        try:
            work = self._files(context, table, dry_run)
        except NotOurs as reason:
            work = OperationResult("skipped", note=str(reason))
        return _with_names(work, names, dry_run) if names else work

    def _files(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        _check_alone(context.lake, table)
        files = TableFiles(table)
        reader = ManifestReader()
        known = reader.referenced_files(table)
        with calling(f"Listing the files of table {name_of(table)}"):
            listed = [found for folder in _FOLDERS for found in files.below(f"{files.location}/{folder}")]
        # Commits that were made meanwhile refer to files that are not in `known`.
        later = reader.referenced_files(context.lake.load(table.name()))
        _check_listing(table, listed, known & later, files.location)
        orphans = find_orphans(
            listed, known | later, context.now_ms() - int(self._config.older_than_hours * _HOUR_MS), files.location
        )
        before = _amounts(listed)
        if not collects_garbage(table):
            return OperationResult("skipped", before, before, _for_the_catalog(orphans, files.location))
        removed = _amounts(orphans)
        after = Amounts(
            files=(before.files or 0) - (removed.files or 0), bytes=(before.bytes or 0) - (removed.bytes or 0)
        )
        if not orphans:
            return OperationResult("nothing", before, before)
        paths = tuple(sorted(found.path for found in orphans))
        if dry_run:
            return OperationResult("would", before, after, removed=removed, items=paths)
        with calling(f"Deleting orphan files of table {name_of(table)}"):
            files.delete(paths)
        return OperationResult("done", before, after, removed=removed)


def _for_the_catalog(orphans: Iterable[ListedFile], location: str) -> str:
    """Returns the note about orphans that only the catalog may delete: another branch of it may need them."""
    data = normalized_path(f"{location}/data/")
    found = _amounts(each for each in orphans if normalized_path(each.path).startswith(data))
    if not found.files:
        return CATALOG_COLLECTS_GARBAGE
    return (
        f"{CATALOG_COLLECTS_GARBAGE}: {found.files:,} old data files ({found.bytes:,} bytes) are not in the table "
        "now, and only its own tool can tell whether anything else needs them"
    )


def _with_names(work: OperationResult, names: Sequence[Identifier], dry_run: bool) -> OperationResult:
    told = f"{len(names)} names of unfinished tables {'would go' if dry_run else 'are gone'}"
    return replace(
        work,
        outcome="would" if dry_run else "done",
        note=f"{told}; {work.note}" if work.note else told,
        items=(*(f"the name {dotted(each)}" for each in names), *work.items) if dry_run else work.items,
    )


def find_orphans(listed: Iterable[ListedFile], referred: set[str], before_ms: int, location: str) -> list[ListedFile]:
    """Returns old files that nothing refers to. Notes about pending deletions are no orphans."""
    notes = normalized_path(f"{location}/{FOLDER}/")
    return [
        found
        for found in listed
        if found.modified_ms < before_ms
        and (where := normalized_path(found.path)) not in referred
        and not where.startswith(notes)
    ]


def _check_listing(table: Table, listed: Iterable[ListedFile], referred: set[str], location: str) -> None:
    here = tuple(normalized_path(f"{location}/{folder}/") for folder in _FOLDERS)
    # Old metadata files are not needed to read the table, and other tools delete them.
    needed = {where for where in referred if where.startswith(here) and not where.endswith(_METADATA)}
    missing = needed - {normalized_path(found.path) for found in listed}
    if missing:
        some = ", ".join(sorted(missing)[:_SHOWN])
        raise IcebergError(
            f"table {name_of(table)} refers to {len(missing)} files that are not in its folder ({some}): nothing was "
            "removed. Restore them, or roll the table back to a snapshot that does not need them"
        )


def _check_alone(lake: Lake, table: Table) -> None:
    """Raises `NotOurs` if another table has its files in the same folder: they would look like orphans."""
    identifier = table.name()
    mine = normalized_path(table.metadata.location.rstrip("/") + "/")
    with calling(f"Listing the tables of {dotted(identifier[:-1])}"):
        others = [tuple(each) for each in lake.catalog.list_tables(identifier[:-1])]
    for other in others:
        # An unfinished table has the folder of the table that it was meant to be, and nobody needs its files.
        if other == identifier or is_temporary(other):
            continue
        try:
            theirs = normalized_path(lake.load(other).metadata.location.rstrip("/") + "/")
        except TableNotFound:
            continue
        if theirs.startswith(mine) or mine.startswith(theirs):
            raise NotOurs(f"table {dotted(other)} has its files in the same folder, {table.metadata.location}")


def _amounts(files: Iterable[ListedFile]) -> Amounts:
    found = list(files)
    return Amounts(files=len(found), bytes=sum(each.size for each in found))
