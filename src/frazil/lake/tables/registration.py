"""Registers the tables of a lost catalog again, from their metadata files in the warehouse.

The table history beside the log has the names and UUIDs of the tables, and the metadata files have their contents. A
commit writes a metadata file with the next version and then makes the catalog point to it. So the current metadata is
among the files of the highest version: of those, all but one lost the race for it. The highest version may also be
that of a commit whose request never reached the catalog. It can be used all the same: its rows and its offsets were
written together, so the log is read from there on, and no row is missing or duplicated.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata

from frazil.errors import IcebergError, TableExists
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.commit.offsets import OFFSET
from frazil.lake.tables.table_check import catalog_lost
from frazil.lake.tables.table_history import HistoryEntry, table_history
from frazil.lake.tables.tables import find_table
from frazil.log.topics.schemas import list_topics
from frazil.store import ObjectStore

_METADATA = "metadata"
_VERSION = re.compile(r"v?(\d+)\b.*\.metadata\.json(\.gz)?")
_DEEPEST = 6
"""This is how many folders may be between the warehouse and a table. Catalogs make one for each level of the
namespace."""


@dataclass(frozen=True)
class MetadataFile:
    """A metadata file of a table."""

    location: str
    version: int
    metadata: TableMetadata

    @property
    def offsets(self) -> dict[int, int]:
        """The next offset of each partition according to the table's properties."""
        properties = self.metadata.properties
        return {int(key[len(OFFSET) :]): int(at) for key, at in properties.items() if key.startswith(OFFSET)}

    def describe(self) -> str:
        ends = sorted(self.offsets.items())
        told = ", ".join(f"partition {partition} up to {end}" for partition, end in ends)
        return f"{self.location} (version {self.version}, {told or 'no rows'})"


@dataclass(frozen=True)
class Registration:
    topic: str
    identifier: Identifier
    file: MetadataFile


def check_not_lost(lake: Lake, store: ObjectStore) -> None:
    """Raises if the catalog is empty although the topics have tables: no new ones may be created in it then."""
    if not lake.is_empty():
        return
    known = [(topic, entry) for topic in list_topics(store) for entry in current_tables(store, topic)]
    if known:
        topic, entry = known[0]
        tables = f"tables that the log remembers, such as {dotted(entry.identifier)} of topic {topic!r}"
        raise catalog_lost(lake, tables)


def current_tables(store: ObjectStore, topic: str) -> list[HistoryEntry]:
    """Returns the newest history entry of each table name, without tables that were retired."""
    newest = {entry.identifier: entry for entry in table_history(store, topic)}
    return [entry for entry in newest.values() if entry.uuid is not None]


def plan_registrations(lake: Lake, store: ObjectStore, chosen: Iterable[str] = ()) -> list[Registration]:
    """Finds a metadata file for each table that the catalog lacks. `chosen` are files that a person has chosen.

    Raises if a table has no metadata file, or several that may be the current one.
    """
    io = _file_io(lake)
    wanted = [(topic, entry) for topic in list_topics(store) for entry in current_tables(store, topic)]
    missing = [(topic, entry) for topic, entry in wanted if find_table(lake, entry.identifier) is None]
    by_choice: dict[UUID, MetadataFile] = {}
    for location in chosen:
        taken = _read(io, location)
        by_choice[taken.metadata.table_uuid] = taken
    folders: dict[str, list[tuple[int, str]]] | None = None
    planned, problems = [], []
    for topic, entry in missing:
        assert entry.uuid is not None
        if entry.uuid in by_choice:
            file = by_choice.pop(entry.uuid)
        else:
            folders = _metadata_files(io, str(lake.properties["warehouse"])) if folders is None else folders
            candidates = _newest(io, folders, entry.uuid)
            if len(candidates) != 1:
                problems.append(_explain(topic, entry, candidates))
                continue
            (file,) = candidates
        planned.append(Registration(topic, entry.identifier, file))
    if by_choice:
        problems.append(
            f"{next(iter(by_choice.values())).location} is not of a table that is missing: name files of those only."
        )
    if problems:
        raise IcebergError("\n".join(problems))
    return planned


def register(lake: Lake, registration: Registration) -> None:
    """Makes the catalog point to the metadata file. Raises `TableExists` if it has a table of this name."""
    identifier = registration.identifier
    lake.ensure_namespace(identifier[:-1])
    if find_table(lake, identifier) is not None:
        raise TableExists(f"Table {dotted(identifier)} is in the {lake.where} already, and is left as it is.")
    with calling(f"Registering table {dotted(identifier)}"):
        lake.catalog.register_table(identifier, registration.file.location)


def _explain(topic: str, entry: HistoryEntry, candidates: list[MetadataFile]) -> str:
    table = f"Table {dotted(entry.identifier)} of topic {topic!r}"
    if not candidates:
        return (
            f"{table} (id {entry.uuid}) has no metadata file in the warehouse whose data files are all there. "
            f"Restore its folder; or, when the table is gone for good, decide `frazil topics resume {topic} "
            f"--recreate`."
        )
    listed = "".join(f"\n  {each.describe()}" for each in candidates)
    return (
        f"{table} has {len(candidates)} metadata files of which each may be the last; any of them keeps every row "
        f"once, as long as the log has what is behind it. Choose with --metadata, usually the one with the most "
        f"rows:{listed}"
    )


def _file_io(lake: Lake) -> PyArrowFileIO:
    warehouse = str(lake.properties.get("warehouse", ""))
    if "/" not in warehouse:
        raise IcebergError(
            f"The {lake.where} has its warehouse at a place of its own. Register its tables there, or give that "
            f"place as lake.properties.warehouse."
        )
    return PyArrowFileIO(dict(lake.properties))


def _metadata_files(io: PyArrowFileIO, warehouse: str) -> dict[str, list[tuple[int, str]]]:
    """Returns version and location of all metadata files, grouped by folder."""
    scheme, netloc, root = PyArrowFileIO.parse_location(warehouse, io.properties)
    files = io.fs_by_scheme(scheme, netloc)
    found: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    with calling(f"Looking for tables in {warehouse}"):
        for path in _walk(files, root.rstrip("/"), _DEEPEST):
            folder, _, name = path.rpartition("/")
            if match := _VERSION.fullmatch(name):
                location = f"{warehouse.rstrip('/')}{path[len(root.rstrip('/')) :]}"
                found[folder].append((int(match[1]), location))
    return found


def _walk(files: FileSystem, folder: str, depth: int) -> Iterator[str]:
    """Yields the files in metadata folders. Data folders, which have many files, are not listed."""
    inside = files.get_file_info(FileSelector(folder, allow_not_found=True))
    below = [each.path for each in inside if each.type is FileType.Directory]
    tables = [path for path in below if path.rpartition("/")[2] == _METADATA]
    for path in tables:
        yield from (each.path for each in files.get_file_info(FileSelector(path)) if each.type is FileType.File)
    if not tables and depth:
        for path in below:
            yield from _walk(files, path, depth - 1)


def _newest(io: FileIO, folders: dict[str, list[tuple[int, str]]], uuid: UUID) -> list[MetadataFile]:
    """Returns the table's metadata files of the highest version whose data files exist."""
    for files in folders.values():
        by_version: defaultdict[int, list[str]] = defaultdict(list)
        for version, location in files:
            by_version[version].append(location)
        for version in sorted(by_version, reverse=True):
            read = (_read(io, location) for location in sorted(by_version[version]))
            if candidates := [each for each in read if each.metadata.table_uuid == uuid and _is_whole(io, each)]:
                return candidates
    return []


def _read(io: FileIO, location: str) -> MetadataFile:
    match = _VERSION.fullmatch(location.rpartition("/")[2])
    with calling(f"Reading {location}"):
        return MetadataFile(
            location, int(match[1]) if match else 0, FromInputFile.table_metadata(io.new_input(location))
        )


def _is_whole(io: FileIO, file: MetadataFile) -> bool:
    """Returns whether the files that the newest snapshot added exist.

    If the commit never succeeded, the files of its attempt may have been deleted.
    """
    snapshot = file.metadata.current_snapshot()
    if snapshot is None:
        return False
    try:
        for manifest in snapshot.manifests(io):
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
                added = entry.status is ManifestEntryStatus.ADDED
                if added and not io.new_input(entry.data_file.file_path).exists():
                    return False
    except FileNotFoundError:
        return False
    return True
