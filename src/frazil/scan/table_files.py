"""The files of a table: which of them have rows of given offsets, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from pyiceberg.expressions.parser import parse
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata

from frazil.errors import IcebergError
from frazil.lake.catalog.calls import calling
from frazil.lake.checksums import patch_list_nulls  # noqa: F401 - for what it puts right in PyIceberg
from frazil.lake.checksums.verifying_io import VerifyingFileIO
from frazil.lake.commit.offsets import current_snapshot, name_of
from frazil.lake.tables.slim_metadata import without_snapshots
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.cut import Span
from frazil.scan.predicate import for_files


def row_filter(spans: Mapping[int, Span] | None) -> BooleanExpression:
    """Rows of these offsets; all rows for None, also such as did not come from the log."""
    if spans is None:
        return AlwaysTrue()
    wanted: BooleanExpression = AlwaysFalse()
    for partition, (start, end) in sorted(spans.items()):
        if start < end:
            one = parse(f"{PARTITION} == {partition} and {OFFSET} >= {start} and {OFFSET} < {end}")
            wanted = Or(wanted, one)
    return wanted


def plan_files(
    table: Table, spans: Mapping[int, Span] | None, where: BooleanExpression | None = None
) -> list[FileScanTask]:
    """Files of the current snapshot that may have such rows, by the statistics in its manifests."""
    wanted = And(row_filter(spans), for_files(where, table.schema()))
    if isinstance(wanted, AlwaysFalse):
        return []
    with calling(f"Planning a read of table {name_of(table)}"):
        try:
            found = table.scan(wanted, snapshot_id=current_snapshot(table).snapshot_id).plan_files()
            return sorted(found, key=lambda task: task.file.file_path)
        except ValueError as error:
            # PyIceberg's word for what it cannot read, equality deletes for one.
            raise IcebergError(f"Table {name_of(table)} cannot be read: {error}.") from error


@dataclass(frozen=True)
class FileReader:
    """Reads files of one table, wherever it is taken to."""

    name: str
    metadata: TableMetadata
    properties: dict[str, str] = field(repr=False)
    """Of its file system."""
    spans: dict[int, Span] | None
    where: BooleanExpression | None = None

    @classmethod
    def of(cls, table: Table, spans: dict[int, Span] | None, where: BooleanExpression | None = None) -> FileReader:
        metadata = without_snapshots(table.metadata)
        return cls(name_of(table), metadata, dict(table.io.properties), spans, where)

    def read(self, files: Sequence[FileScanTask], wanted: Schema) -> Iterator[pa.RecordBatch]:
        """The rows with these columns, and perhaps some that `where` does not want.

        Rows that were deleted from a file are left out.
        """
        with calling(f"Reading table {self.name}"):
            io = VerifyingFileIO(load_file_io(self.properties, self.metadata.location), self.name, self.metadata)
            rows = And(row_filter(self.spans), for_files(self.where, self.metadata.schema()))
            scan = ArrowScan(self.metadata, io, wanted, rows)
            for task in files:
                with io.explaining_damage(task):
                    # What PyIceberg offers to everybody gathers a whole file before it hands out the first batch.
                    deletes = _read_all_delete_files(io, [task])
                    yield from scan._record_batches_from_scan_tasks_and_deletes([task], deletes)


def read_rows(
    table: Table, columns: Sequence[str], where: BooleanExpression | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a table as it is now, in no order; `where` is about columns that the table has."""
    reader = FileReader.of(table, None, where)
    for batch in reader.read(plan_files(table, None, where), table.schema().select(*columns)):
        yield batch.select(list(columns))
