"""Finds the files of a table that have rows of given offsets, and reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from pyiceberg.expressions.parser import parse
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata

from frazil.errors import IcebergError
from frazil.lake.catalog.calls import calling
from frazil.lake.checksums import patch_list_nulls  # noqa: F401 - for what it puts right in PyIceberg
from frazil.lake.checksums.verifying_io import VerifyingFileIO
from frazil.lake.commit.offsets import current_snapshot, name_of
from frazil.lake.pyiceberg_internals import scan_file
from frazil.lake.tables.slim_metadata import without_snapshots
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.offset_ranges import OffsetRange

_ALL: BooleanExpression = AlwaysTrue()


def offset_filter(ranges: Mapping[int, OffsetRange] | None) -> BooleanExpression:
    """Returns a filter for rows of these offsets. None means all rows, including those that did not come from the
    log."""
    if ranges is None:
        return AlwaysTrue()
    wanted: BooleanExpression = AlwaysFalse()
    for partition, (start, end) in sorted(ranges.items()):
        if start < end:
            one = parse(f"{PARTITION} == {partition} and {OFFSET} >= {start} and {OFFSET} < {end}")
            wanted = Or(wanted, one)
    return wanted


def plan_files(
    table: Table, ranges: Mapping[int, OffsetRange] | None, where: BooleanExpression = _ALL
) -> list[FileScanTask]:
    """Returns the files of the current snapshot that may have such rows, by the statistics in its manifests."""
    wanted = And(offset_filter(ranges), where)
    if isinstance(wanted, AlwaysFalse):
        return []
    with calling(f"Planning a read of table {name_of(table)}"):
        try:
            found = table.scan(wanted, snapshot_id=current_snapshot(table).snapshot_id).plan_files()
            return sorted(found, key=lambda task: task.file.file_path)
        except ValueError as error:
            # PyIceberg raises this for what it cannot read, such as equality deletes.
            raise IcebergError(f"Table {name_of(table)} cannot be read: {error}.") from error


@dataclass(frozen=True)
class FileReader:
    """Reads files of one table. It can be pickled and used elsewhere."""

    name: str
    metadata: TableMetadata
    properties: dict[str, str] = field(repr=False)
    """These are the properties of the file system."""
    ranges: dict[int, OffsetRange] | None
    where: BooleanExpression = _ALL

    @classmethod
    def of(cls, table: Table, ranges: dict[int, OffsetRange] | None, where: BooleanExpression = _ALL) -> FileReader:
        metadata = without_snapshots(table.metadata)
        return cls(name_of(table), metadata, dict(table.io.properties), ranges, where)

    def read(self, files: Sequence[FileScanTask], wanted: Schema) -> Iterator[pa.RecordBatch]:
        """Yields rows with these columns, perhaps also some that `where` excludes.

        Rows that were deleted from a file are left out.
        """
        with calling(f"Reading table {self.name}"):
            io = VerifyingFileIO(load_file_io(self.properties, self.metadata.location), self.name, self.metadata)
            rows = And(offset_filter(self.ranges), self.where)
            scan = ArrowScan(self.metadata, io, wanted, rows)
            for task in files:
                with io.explaining_damage(task):
                    yield from scan_file(scan, io, task)


def read_rows(
    table: Table, columns: Sequence[str], where: BooleanExpression | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the current rows of a table in no order. `where` may use columns that the table has."""
    wanted = _ALL if where is None else where
    reader = FileReader.of(table, None, wanted)
    for batch in reader.read(plan_files(table, None, wanted), table.schema().select(*columns)):
        yield batch.select(list(columns))
