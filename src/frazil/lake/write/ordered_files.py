"""Writes rows of one partition, which come in the table's order, to data files of the table's target size."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from frazil.errors import ParquetWrite
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.write.data_files import key_columns, target_bytes
from frazil.lake.write.parquet import ParquetFileWriter, ParquetOptions, remove
from frazil.lake.write.statistics import leaf_columns

_SPILL = 1.25
"""A file may be larger than the target by this factor: a second file with the little that is left helps nobody."""


class OrderedFileWriter:
    """Writes the data files of rows that are in order already, one row group at a time.

    As a context manager it removes its files when the block raises.
    """

    def __init__(self, io: FileIO, metadata: TableMetadata, folder: str, name: str, partition: Record) -> None:
        """`name` begins the names of the files. No other writer may have the same folder and name."""
        self.schema = arrow_schema(metadata.schema())
        self._io = io
        self._path = f"{folder.rstrip('/')}/{name}"
        self._partition = partition
        self._spec_id = metadata.default_spec_id
        self._sort_order_id = metadata.default_sort_order_id
        self._options = ParquetOptions.of(metadata.properties)
        self._limit = int(target_bytes(metadata) * _SPILL)
        self._columns = leaf_columns(metadata.schema(), metadata.properties, key_columns(metadata))
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._file: ParquetFileWriter | None = None
        self._done: list[DataFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()

    def write(self, rows: pa.Table) -> None:
        """Takes the next rows, with the columns of the table."""
        self._waiting.append(rows)
        self._waiting_rows += len(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= self._options.group_rows or self._waiting_bytes >= self._options.group_bytes:
            self._write_groups(all_of_them=False)

    def close(self) -> list[DataFile]:
        """Finishes all files and returns them. They are as durable as their storage makes them."""
        if self._waiting_rows:
            self._write_groups(all_of_them=True)
        self._end_file()
        return self._done

    def abort(self) -> None:
        """Removes the files that were written. Nobody else knows of them yet."""
        self._waiting = []
        if self._file is not None:
            self._file.abort()
            self._file = None
        for file in self._done:
            remove(self._io, file.file_path)
        self._done = []

    def _write_groups(self, *, all_of_them: bool) -> None:
        """Writes the waiting rows as full row groups. A rest waits for more rows, unless there are no more."""
        try:
            rows = pa.concat_tables(self._waiting).combine_chunks()
        except pa.ArrowException as error:
            raise ParquetWrite(f"Rows for {self._path} could not be joined: {error}.") from error
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        size = self._options.rows_per_group(rows)
        for start in range(0, len(rows), size):
            part = rows.slice(start, size)
            if len(part) == size or all_of_them:
                self._write_group(part)
            else:
                self._waiting, self._waiting_rows, self._waiting_bytes = [part], len(part), part.nbytes

    def _write_group(self, rows: pa.Table) -> None:
        if self._file is None:
            path = f"{self._path}-{len(self._done):05d}.parquet"
            self._file = ParquetFileWriter(self._io, path, rows, self._columns, self._options)
        self._file.write(rows)
        if self._file.size >= self._limit:
            self._end_file()

    def _end_file(self) -> None:
        if self._file is None:
            return
        finished = self._file.close()
        self._file = None
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=finished.path,
            file_format=FileFormat.PARQUET,
            partition=self._partition,
            record_count=finished.rows,
            file_size_in_bytes=finished.bytes,
            sort_order_id=self._sort_order_id,
            **vars(finished.metrics),
        )
        file.spec_id = self._spec_id
        self._done.append(file)
