"""Reads from the manifests of a table which files it has, and what the choice of files needs to know of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, PrimitiveType

from frazil.errors import FrazilError
from frazil.lake.catalog.calls import calling
from frazil.lake.commit.attempts import attempt_time_ms
from frazil.lake.commit.offsets import current_snapshot, name_of
from frazil.lake.commit.replace import deletes_of
from frazil.lake.write.data_files import target_bytes
from frazil.log.schema.columns import OFFSET
from frazil.maintain.compaction.policy import SMALL, SmallFile
from frazil.maintain.manifest_reader import ManifestReader
from frazil.scan.table.data_files import TableFile


@dataclass(frozen=True)
class LiveFiles:
    """The files of the current snapshot of a table."""

    data: dict[str, DataFile]
    small: tuple[SmallFile, ...]
    """The files that may be merged. Those of an older partition spec and of other formats are left as they are."""
    deletes_by_value: bool
    """Whether rows are deleted by equality deletes."""

    @classmethod
    def of(cls, table: Table) -> LiveFiles:
        reader = ManifestReader()
        entries = list(reader.entries(table, reader.manifests(table, [current_snapshot(table)]).values()))
        data = {each.data_file.file_path: each.data_file for each in entries if _is(each, DataFileContent.DATA)}
        times = {each.snapshot_id: each.timestamp_ms for each in table.metadata.snapshots}
        offset = next((field for field in table.schema().fields if field.name == OFFSET), None)
        limit, spec = SMALL * target_bytes(table.metadata), table.metadata.default_spec_id
        small = [
            _small(entry, times, offset)
            for entry in entries
            if _is(entry, DataFileContent.DATA)
            and entry.data_file.spec_id == spec
            and entry.data_file.file_format == FileFormat.PARQUET
            and entry.data_file.file_size_in_bytes < limit
        ]
        return cls(data, tuple(small), any(_is(each, DataFileContent.EQUALITY_DELETES) for each in entries))


def _is(entry: ManifestEntry, content: DataFileContent) -> bool:
    return bool(entry.data_file.content == content)


def _small(entry: ManifestEntry, times: dict[int, int], offset: NestedField | None) -> SmallFile:
    file = entry.data_file
    key = tuple(file.partition[number] for number in range(len(file.partition)))
    position = _first_offset(file, offset)
    return SmallFile(
        file.file_path,
        file.file_size_in_bytes,
        key,
        _written_ms(entry, times),
        position if position is not None else entry.sequence_number or 0,
    )


def _first_offset(file: DataFile, offset: NestedField | None) -> int | None:
    bound = (file.lower_bounds or {}).get(offset.field_id) if offset is not None else None
    if bound is None or offset is None:
        return None
    assert isinstance(offset.field_type, PrimitiveType)
    return int(from_bytes(offset.field_type, bound))


def _written_ms(entry: ManifestEntry, times: dict[int, int]) -> int:
    """Returns when a file came into the table, or 0 if that was too long ago to know.

    Files of Frazil are in the folder of their attempt, whose name tells the time also where snapshots have expired.
    """
    try:
        return attempt_time_ms(entry.data_file.file_path.rsplit("/", 2)[-2])
    except (FrazilError, IndexError):
        return times.get(entry.snapshot_id or 0, 0)


def table_files(table: Table, files: Sequence[DataFile]) -> dict[str, TableFile]:
    """Returns files with the delete files that apply to them, and with the values that only their partition tells."""
    found: dict[str, tuple[DataFile, ...]] = {}
    if deletes_of(table, frozenset(file.file_path for file in files)):
        with calling(f"Planning a read of table {name_of(table)}"):
            tasks = table.scan(snapshot_id=current_snapshot(table).snapshot_id).plan_files()
        found = {each.file.file_path: tuple(sorted(each.delete_files, key=_path)) for each in tasks}
    return {
        file.file_path: TableFile(file, found.get(file.file_path, ()), tuple(_constants(table, file)))
        for file in files
    }


def _path(file: DataFile) -> str:
    return str(file.file_path)


def _constants(table: Table, file: DataFile) -> Iterator[tuple[int, object]]:
    for number, field in enumerate(table.metadata.specs()[file.spec_id].fields):
        if isinstance(field.transform, IdentityTransform) and file.partition[number] is not None:
            yield field.source_id, file.partition[number]
