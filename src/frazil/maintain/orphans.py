"""Orphans: files in a table's folder that nothing refers to, left by attempts that were killed or lost their race.

A file that is young may belong to a commit that is still under way, so it stays. Before anything is deleted, all that
the table refers to must be among what was listed: where the two disagree on how a file's name is written, nothing
is safe to delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyiceberg.table import Table

from frazil.config.sections.maintenance import OrphansConfig
from frazil.errors import IcebergError, TableNotFound
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.commit.offsets import named
from frazil.lake.tables.creation import is_temporary
from frazil.maintain.changes import CATALOGS_BUSINESS, collects_garbage
from frazil.maintain.contents import Contents
from frazil.maintain.files import Found, TableFiles, place
from frazil.maintain.pending import FOLDER
from frazil.maintain.report import Amounts, NotOurs, Work
from frazil.maintain.targets import Target
from frazil.maintain.unfinished import forget, unfinished
from frazil.maintain.workshop import Workshop

_FOLDERS = ("data", "metadata")
_METADATA = ".metadata.json"
_SHOWN = 3
_HOUR_MS = 3_600_000


class OrphanRemoval:
    name = "orphans"
    any_version = False

    def __init__(self, config: OrphansConfig) -> None:
        self._config = config

    def applies(self, target: Target) -> bool:
        return True

    def run(self, shop: Workshop, table: Table, dry_run: bool) -> Work:
        names = unfinished(shop.lake, table, shop.now_ms())
        if names and not dry_run:
            forget(shop.lake, table, names)
        try:
            work = self._files(shop, table, dry_run)
        except NotOurs as reason:
            work = Work("skipped", note=str(reason))
        return _with_names(work, names, dry_run) if names else work

    def _files(self, shop: Workshop, table: Table, dry_run: bool) -> Work:
        _check_alone(shop.lake, table)
        files = TableFiles(table)
        contents = Contents()
        known = contents.references(table)
        with calling(f"Listing the files of table {named(table)}"):
            listed = [found for folder in _FOLDERS for found in files.below(f"{files.location}/{folder}")]
        # Whoever committed meanwhile refers to files that the first look did not know.
        later = contents.references(shop.lake.load(table.name()))
        _check_listing(table, listed, known & later, files.location)
        orphans = find_orphans(
            listed, known | later, shop.now_ms() - int(self._config.older_than_hours * _HOUR_MS), files.location
        )
        before = _amounts(listed)
        if not collects_garbage(table):
            return Work("skipped", before, before, _for_the_catalog(orphans, files.location))
        removed = _amounts(orphans)
        after = Amounts(
            files=(before.files or 0) - (removed.files or 0), bytes=(before.bytes or 0) - (removed.bytes or 0)
        )
        if not orphans:
            return Work("nothing", before, before)
        paths = tuple(sorted(found.path for found in orphans))
        if dry_run:
            return Work("would", before, after, removed=removed, items=paths)
        with calling(f"Deleting orphan files of table {named(table)}"):
            files.delete(paths)
        return Work("done", before, after, removed=removed)


def _for_the_catalog(orphans: Iterable[Found], location: str) -> str:
    """What would be orphans here may be rows of another branch, or of an older state, there."""
    data = place(f"{location}/data/")
    found = _amounts(each for each in orphans if place(each.path).startswith(data))
    if not found.files:
        return CATALOGS_BUSINESS
    return (
        f"{CATALOGS_BUSINESS}: {found.files:,} old data files ({found.bytes:,} bytes) are not in the table now, and "
        "only its own tool can tell whether anything else needs them"
    )


def _with_names(work: Work, names: Sequence[Identifier], dry_run: bool) -> Work:
    told = f"{len(names)} names of unfinished tables {'would go' if dry_run else 'are gone'}"
    return replace(
        work,
        outcome="would" if dry_run else "done",
        note=f"{told}; {work.note}" if work.note else told,
        items=(*(f"the name {dotted(each)}" for each in names), *work.items) if dry_run else work.items,
    )


def find_orphans(listed: Iterable[Found], referred: set[str], before_ms: int, location: str) -> list[Found]:
    """Old files that nothing refers to. Notes about files that wait for their deletion are no orphans."""
    notes = place(f"{location}/{FOLDER}/")
    return [
        found
        for found in listed
        if found.modified_ms < before_ms
        and (where := place(found.path)) not in referred
        and not where.startswith(notes)
    ]


def _check_listing(table: Table, listed: Iterable[Found], referred: set[str], location: str) -> None:
    here = tuple(place(f"{location}/{folder}/") for folder in _FOLDERS)
    # Nobody needs old metadata to read the table, and other tools delete it.
    needed = {where for where in referred if where.startswith(here) and not where.endswith(_METADATA)}
    missing = needed - {place(found.path) for found in listed}
    if missing:
        some = ", ".join(sorted(missing)[:_SHOWN])
        raise IcebergError(
            f"table {named(table)} refers to {len(missing)} files that are not in its folder ({some}): nothing was "
            "removed. Restore them, or roll the table back to a snapshot that does not need them"
        )


def _check_alone(lake: Lake, table: Table) -> None:
    """Two tables in one folder would take each other's files for orphans."""
    identifier = table.name()
    mine = place(table.metadata.location.rstrip("/") + "/")
    with calling(f"Listing the tables of {dotted(identifier[:-1])}"):
        others = [tuple(each) for each in lake.catalog.list_tables(identifier[:-1])]
    for other in others:
        # An unfinished table lies in the folder of the one it was meant to be, and nobody needs its files.
        if other == identifier or is_temporary(other):
            continue
        try:
            theirs = place(lake.load(other).metadata.location.rstrip("/") + "/")
        except TableNotFound:
            continue
        if theirs.startswith(mine) or mine.startswith(theirs):
            raise NotOurs(f"table {dotted(other)} has its files in the same folder, {table.metadata.location}")


def _amounts(files: Iterable[Found]) -> Amounts:
    found = list(files)
    return Amounts(files=len(found), bytes=sum(each.size for each in found))
