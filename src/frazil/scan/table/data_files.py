"""Opens the data files of a table and reads row groups of them, with their checksums verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from frazil.errors import IcebergError
from frazil.formats.schema_cache import SchemaCache
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.storage import family
from frazil.lake.checksums.file_checksums import check_footer
from frazil.lake.checksums.magic_bytes import ChecksumMismatch
from frazil.lake.checksums.page_headers import PageHeaders
from frazil.lake.checksums.verifying_io import VerifyingFileIO
from frazil.lake.commit.offsets import name_of
from frazil.lake.pyiceberg_internals import deleted_places
from frazil.scan.selection.bounded_cache import BoundedCache
from frazil.scan.table.file_columns import FileColumns
from frazil.scan.table.footers import Footer, Integers

_BUFFER_BYTES = 1024 * 1024


@dataclass(frozen=True)
class TableFile:
    """Names one file of a snapshot, with what the reader must know of it besides its content."""

    file: DataFile
    deletes: tuple[DataFile, ...]
    constants: tuple[tuple[int, Any], ...]
    """The values that the partition of the file has for columns, by field id."""

    @property
    def path(self) -> str:
        return str(self.file.file_path)

    @property
    def rows(self) -> int:
        return int(self.file.record_count)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Returns what tells the rows of the file apart from those of all others."""
        return (self.path, *(each.file_path for each in self.deletes))


class DataFiles:
    """Reads the files of one table as it was when it was loaded. Any thread may use it.

    `schema` is the schema that the table is going to have, if it is known to grow. `like` has read files of the same
    table with the same columns.
    """

    def __init__(self, table: Table, schema: Schema, footers: BoundedCache, like: DataFiles | None = None) -> None:
        self.metadata = table.metadata
        self._io = table.io
        self._name = name_of(table)
        self._verifying = VerifyingFileIO.of(table)
        self._footers = footers
        made = SchemaCache(lambda found: FileColumns(found, self.metadata, schema))
        self._columns: SchemaCache[FileColumns] = made if like is None else like._columns

    def footer(self, file: TableFile) -> Footer:
        """Returns the footer of a file, which is read once."""
        found: Footer | None = self._footers.find(file.path)
        if found is None:
            with self._explained(file), self._opened(file) as (source, stream):
                found = self._read_footer(file, source, stream)
            self._footers.keep(file.path, found, found.nbytes)
        return found

    def columns(self, footer: Footer) -> FileColumns:
        return self._columns[footer.schema]

    def batches(
        self, file: TableFile, group: int, names: Sequence[str], rows: int, dictionaries: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yields a row group in batches of so many rows, the last perhaps smaller, with these columns of the file.

        Columns of texts that are in `dictionaries` stay dictionary-encoded.
        """
        footer = self.footer(file)
        with self._explained(file), self._opened(file) as (source, _):
            self._verify_headers(footer, group, names, source)
            found = self._parquet(file, footer, source, dictionaries)
            yield from found.iter_batches(rows, row_groups=[group], columns=list(names))

    def group(self, file: TableFile, group: int, names: Sequence[str]) -> pa.Table:
        """Returns a row group with these columns of the file."""
        footer = self.footer(file)
        with self._explained(file), self._opened(file) as (source, _):
            self._verify_headers(footer, group, names, source)
            return self._parquet(file, footer, source).read_row_group(group, columns=list(names))

    def deleted(self, file: TableFile) -> Integers | None:
        """Returns the positions of rows that were deleted from the file after it was written."""
        if not file.deletes:
            return None
        task = FileScanTask(file.file, delete_files=set(file.deletes))
        with calling(f"Reading table {self._name}"), self._verifying.explaining_damage(task):
            found = [np.asarray(places, np.int64) for places in deleted_places(self._verifying, task)]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def check_format(self, file: TableFile) -> None:
        if file.file.file_format != FileFormat.PARQUET:
            raise IcebergError(
                f"Table {self._name} has a data file in the format {file.file.file_format.value}, {file.path}, which "
                f"Frazil does not read. Rewrite it as Parquet."
            )

    def _parquet(
        self, file: TableFile, footer: Footer, source: Any, dictionaries: Sequence[str] = ()
    ) -> pq.ParquetFile:
        local = _is_local(file.path)
        return pq.ParquetFile(
            source,
            metadata=footer.metadata,
            read_dictionary=list(dictionaries) or None,
            buffer_size=0 if local else _BUFFER_BYTES,
            pre_buffer=not local,
            page_checksum_verification=True,
        )

    def _read_footer(self, file: TableFile, source: Any, stream: Any) -> Footer:
        local = _is_local(file.path)
        try:
            checksums = check_footer(stream)
            headers = PageHeaders.read(stream, checksums.body_bytes) if local and checksums is not None else None
        except ChecksumMismatch as mismatch:
            raise self._verifying.damaged(file.path, str(mismatch)) from mismatch
        stream.seek(0)
        metadata = pq.read_metadata(source)
        if metadata.num_rows != file.rows:
            raise self._verifying.damaged(
                file.path, f"it has {metadata.num_rows:,} rows, and {file.rows:,} were written"
            )
        return Footer(metadata, headers)

    def _verify_headers(self, footer: Footer, group: int, names: Sequence[str], source: Any) -> None:
        """Verifies the headers of the pages that are going to be read. Pages are verified as they are read."""
        if footer.headers is None:
            return
        for start, length in footer.ranges(group, list(names)):
            source.seek(start)
            footer.headers.check(start, source.read_buffer(length), source)
        source.seek(0)

    @contextmanager
    def _opened(self, file: TableFile) -> Iterator[tuple[Any, Any]]:
        """Opens a file for Arrow, and as a stream for the checksums. A local file is mapped into memory."""
        if _is_local(file.path):
            _, _, path = PyArrowFileIO.parse_location(file.path, self._io.properties)
            with pa.memory_map(path) as source:
                yield source, source
            return
        with self._io.new_input(file.path).open() as stream:
            yield stream, stream

    @contextmanager
    def _explained(self, file: TableFile) -> Iterator[None]:
        task = FileScanTask(file.file)
        with calling(f"Reading table {self._name}"), self._verifying.explaining_damage(task):
            yield


def _is_local(path: str) -> bool:
    return family(path) == "file"
