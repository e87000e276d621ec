"""Orphans: files in a table's folder that nothing refers to, left by attempts that were killed or lost their race.

A file that is young may belong to a commit that is still under way, so it stays. Before anything is deleted, all that
the table refers to must be among what was listed: where the two disagree on how a file's name is written, nothing
is safe to delete.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.table import Table

from frazil.config.model import OrphansConfig
from frazil.errors import IcebergError, TableNotFound
from frazil.lake.birth import is_temporary
from frazil.lake.calls import calling
from frazil.lake.catalog import Lake, dotted
from frazil.lake.offsets import named
from frazil.maintain.changes import CATALOGS_BUSINESS, collects_garbage
from frazil.maintain.contents import Contents
from frazil.maintain.files import Found, TableFiles, place
from frazil.maintain.pending import FOLDER
from frazil.maintain.report import Amounts, NotOurs, Work
from frazil.maintain.targets import Target
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
        if not collects_garbage(table):
            raise NotOurs(f"{CATALOGS_BUSINESS}; the files of failed batches are cleaned up by the pipeline")
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
