"""Rewrites a group of files of one partition as few files, and proves that they have the same rows."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from frazil.errors import ParquetWrite
from frazil.failpoints import failpoint
from frazil.lake.catalog.lake import Identifier
from frazil.lake.commit.attempts import attempt_folder
from frazil.lake.tables.slim_metadata import without_snapshots
from frazil.lake.write.ordered_files import OrderedFileWriter
from frazil.lake.write.sorting import Sorter
from frazil.maintain.rewrite.merge import OutOfOrder, SortedInput, merge
from frazil.maintain.rewrite.old_rows import OldRows
from frazil.maintain.rewrite.row_checksum import RowChecksum
from frazil.maintain.rewrite.sorted_runs import sorted_runs
from frazil.maintain.rewrite.source_files import SourceFiles
from frazil.scan.table.data_files import TableFile

_MERGE_BYTES = 64 * 1024 * 1024
"""The batches of all inputs together have about this size."""
_FEWEST_ROWS = 512
_MOST_ROWS = 65_536


@dataclass(frozen=True)
class RewriteJob:
    """Everything that a task needs to rewrite files of a table."""

    name: Identifier
    metadata_json: str
    """The metadata of the table without its history."""
    properties: dict[str, str]
    """The properties of its file IO."""
    attempt: str

    @classmethod
    def of(cls, table: Table, attempt: str) -> RewriteJob:
        metadata = without_snapshots(table.metadata).model_dump_json()
        return cls(tuple(table.name()), metadata, dict(table.io.properties), attempt)

    @cached_property
    def metadata(self) -> TableMetadata:
        return TableMetadataUtil.parse_raw(self.metadata_json)

    @cached_property
    def table(self) -> Table:
        io = load_file_io(self.properties, self.metadata.location)
        return Table(self.name, self.metadata, "", io, NoopCatalog("rewriting"))


@dataclass(frozen=True)
class FileGroup:
    """Files of one partition that become one, or a few."""

    files: tuple[TableFile, ...]
    old: OldRows | None = None
    """The rows to leave out."""

    @property
    def bytes(self) -> int:
        return sum(each.file.file_size_in_bytes for each in self.files)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)


@dataclass(frozen=True)
class Rewritten:
    files: tuple[DataFile, ...]
    lost: Mapping[int, int]
    """The highest offset, by partition, of the rows that were left out."""

    @classmethod
    def joined(cls, parts: Iterable[Rewritten]) -> Rewritten:
        files: list[DataFile] = []
        lost: dict[int, int] = {}
        for part in parts:
            files += part.files
            lost |= {at: max(offset, lost.get(at, offset)) for at, offset in part.lost.items()}
        return cls(tuple(files), lost)


def rewrite(job: RewriteJob, group: FileGroup, name: str) -> Rewritten:
    """Returns the new files, whose names begin with `name`. Raises if they do not have the rows of the group."""
    source = SourceFiles(job.table)
    for file in group.files:
        source.check(file)
    source.keep_dictionaries(group.files)
    failpoint("rewrite.checked")
    unsorted: set[str] = set()
    while True:
        try:
            return _Rewrite(job, source, group, unsorted).run(name)
        except OutOfOrder as found:
            # The file says that it has the table's order, and has not.
            unsorted.add(found.path)


class _Rewrite:
    """One try to rewrite a group."""

    def __init__(self, job: RewriteJob, source: SourceFiles, group: FileGroup, unsorted: set[str]) -> None:
        metadata = job.metadata
        self._job = job
        self._source = source
        self._files = group.files
        self._old = None if group.old is None else group.old.finder(metadata.schema())
        self._lost: dict[int, int] = {}
        self._unsorted = unsorted
        self._sorter = Sorter(metadata.sort_order(), metadata.schema())
        self._read = RowChecksum()
        self._written = RowChecksum()

    def run(self, name: str) -> Rewritten:
        job = self._job
        folder = attempt_folder(job.metadata.location, job.attempt)
        partition = self._files[0].file.partition
        with (
            TemporaryDirectory(prefix="frazil-rewrite-") as runs,
            OrderedFileWriter(job.table.io, job.metadata, folder, name, partition) as writer,
        ):
            for rows in self._rows(Path(runs)):
                for batch in rows.to_batches():
                    self._written.add(batch)
                writer.write(rows)
            failpoint("rewrite.before-close")
            done = writer.close()
            self._check(done)
        failpoint("rewrite.done")
        return Rewritten(tuple(done), self._lost)

    def _rows(self, runs: Path) -> Iterator[pa.Table]:
        rows = self._batch_rows()
        if self._sorter.trivial:
            for file in self._files:
                for batch in self._counted(file, rows):
                    yield pa.Table.from_batches([batch])
            return
        with ExitStack() as open_inputs:
            inputs = []
            for number, file in enumerate(self._files):
                batches = self._counted(file, rows)
                open_inputs.callback(batches.close)
                if self._is_sorted(file):
                    inputs.append(SortedInput(file.path, batches, self._sorter))
                else:
                    for run in sorted_runs(batches, self._sorter, runs, str(number), rows):
                        inputs.append(SortedInput(file.path, run, self._sorter))
            yield from merge(inputs, self._sorter)

    def _batch_rows(self) -> int:
        widest = max(self._source.row_bytes(file) for file in self._files)
        return max(_FEWEST_ROWS, min(_MOST_ROWS, _MERGE_BYTES // (widest * len(self._files))))

    def _counted(self, file: TableFile, rows: int) -> Generator[pa.RecordBatch, None, None]:
        for found in self._source.batches(file, rows):
            batch = found if self._old is None else self._old.leave_out(found, self._lost)
            self._read.add(batch)
            if len(batch):
                yield batch

    def _is_sorted(self, file: TableFile) -> bool:
        return file.file.sort_order_id == self._job.metadata.default_sort_order_id and file.path not in self._unsorted

    def _check(self, done: list[DataFile]) -> None:
        """Compares the rows that were written with those that were read."""
        stored = sum(file.record_count for file in done)
        if self._written != self._read or stored != self._read.rows:
            name, read, written = ".".join(self._job.name), self._read, self._written
            raise ParquetWrite(
                f"Rewriting {len(self._files)} files of table {name} would have changed its rows ({read.rows:,} rows "
                f"with checksum {read.sum:016x} were read, {written.rows:,} with {written.sum:016x} were written, "
                f"{stored:,} are in the new files). Nothing was committed. This is a fault of Frazil: report it."
            )
