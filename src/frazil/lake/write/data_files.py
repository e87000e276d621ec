"""Writes rows of a table to data files, partitioned, sorted, and of the table's target size.

Rows that need neither partitioning nor sorting are written as they come, a row group at a time. Others are collected
up to a limit, sorted together and written one file after the other. So only one file is open at a time, however many
partitions there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from frazil.errors import ParquetWrite, TableSchemaMismatch
from frazil.lake.mapping.dictionaries import combine_columns, decoded_bytes, keep_dictionaries
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.write.parquet import FinishedFile, ParquetFileWriter, ParquetOptions, remove
from frazil.lake.write.partitioning import Partitioner
from frazil.lake.write.sorting import Ranks, Sorter
from frazil.lake.write.statistics import leaf_columns
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.schema.nulls import are_null
from frazil.log.schema.repeated_texts import joined
from frazil.log.schema.schema import without_dictionaries

TARGET_BYTES = "write.target-file-size-bytes"
_DEFAULT_TARGET = 512 * 1024 * 1024
GATHER_BYTES = 40 * 1024 * 1024
"""This is how many bytes of memory are sorted together. While rows are sorted, they are in memory three times."""
GATHER_PLAIN_BYTES = 256 * 1024 * 1024
"""This is how many bytes these rows may have without dictionaries, which some columns may lose."""


def target_bytes(metadata: TableMetadata) -> int:
    """Returns the size that the data files of a table should have."""
    return int(metadata.properties.get(TARGET_BYTES, _DEFAULT_TARGET))


def key_columns(metadata: TableMetadata) -> set[int]:
    """Returns the ids of the columns by which files are found. They have statistics whatever the table says."""
    keys = {field.source_id for field in metadata.spec().fields}
    keys |= {field.source_id for field in metadata.sort_order().fields}
    return keys | {field.field_id for field in metadata.schema().fields if field.name in (PARTITION, OFFSET)}


class DataFileWriter:
    """Writes the data files of one task. No other writer may have the same folder and task.

    As a context manager it removes its files when the block raises.
    """

    def __init__(
        self, io: FileIO, metadata: TableMetadata, folder: str, task: int, gather_bytes: int = GATHER_BYTES
    ) -> None:
        schema = metadata.schema()
        self.schema = arrow_schema(schema)
        self._io = io
        self._folder = folder.rstrip("/")
        self._task = task
        self._gather_bytes = gather_bytes
        self._spec_id = metadata.default_spec_id
        self._sort_order_id = metadata.default_sort_order_id
        self._options = ParquetOptions.of(metadata.properties)
        self._target = target_bytes(metadata)
        spec, order = metadata.spec(), metadata.sort_order()
        self._splitter = Partitioner(spec, schema)
        self._sorter = Sorter(order, schema)
        self._columns = leaf_columns(schema, metadata.properties, key_columns(metadata))
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_held = 0
        """This is how many bytes of memory the waiting rows hold."""
        self._waiting_bytes = 0
        """This is how many bytes the waiting rows have without dictionaries."""
        self._waiting_rows = 0
        self._file: ParquetFileWriter | None = None
        self._partition = Record()
        self._done: list[DataFile] = []
        self._named = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes rows with the columns of the table. Field ids and the order of columns may differ."""
        if not len(batch):
            return
        rows = self._as_table_has(batch)
        if self._ordered:
            rows = _copied(rows)
            self._waiting_held += rows.get_total_buffer_size()
        self._waiting.append(rows)
        self._waiting_bytes += decoded_bytes(rows)
        self._waiting_rows += len(batch)
        if self._enough:
            self._write_waiting()

    def close(self) -> list[DataFile]:
        """Finishes all files and returns them. They are as durable as their storage makes them."""
        self._write_waiting()
        with self._writing():
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

    @property
    def _ordered(self) -> bool:
        """Returns whether rows are partitioned or sorted. If not, they are written as they come."""
        return not (self._splitter.trivial and self._sorter.trivial)

    @property
    def _enough(self) -> bool:
        """Returns whether there are enough waiting rows to write them."""
        if self._ordered:
            return self._waiting_held >= self._gather_bytes or self._waiting_bytes >= GATHER_PLAIN_BYTES
        options = self._options
        return self._waiting_bytes >= options.group_bytes or self._waiting_rows >= options.group_rows

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise ParquetWrite(f"Data files in {self._folder} could not be written: {error}.") from error

    def _write_waiting(self) -> None:
        with self._writing():
            if self._ordered:
                self._write_ordered()
            else:
                self._write_unordered()

    def _as_table_has(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.equals(self.schema, check_metadata=True):
            return batch
        if not self._ordered:
            # All row groups of a file must have the same types, and later batches may have no dictionaries.
            batch = without_dictionaries(batch)
        try:
            columns = [batch.column(field.name) for field in self.schema]
            fields = [
                field.with_type(keep_dictionaries(field.type, column.type))
                for field, column in zip(self.schema, columns, strict=True)
            ]
            return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        except (KeyError, ValueError, TypeError, pa.ArrowException) as error:
            raise TableSchemaMismatch(f"Rows do not have the table's columns: {error}.") from error

    def _take_waiting(self) -> pa.Table:
        rows = joined(self._waiting, self.schema)
        self._waiting = []
        self._waiting_held = self._waiting_bytes = self._waiting_rows = 0
        return rows

    def _write_unordered(self) -> None:
        rows = self._take_waiting()
        self._write_run(rows, None, 0, len(rows))

    def _write_ordered(self) -> None:
        if not self._waiting:
            return
        rows = combine_columns(self._take_waiting(), self.schema)
        if self._splitter.trivial:
            order = self._sorter.order(rows)
            self._write_run(rows, order, 0, len(rows))
            self._end_file()
            return
        codes, partitions = self._splitter.split(rows)
        order = self._sorter.order(rows, Ranks(codes, len(partitions)))
        ordered = codes if order is None else codes.take(order)
        start = 0
        runs = pc.run_end_encode(ordered)
        blocks = _OrderedBlocks(rows, order, self._options.rows_per_group(rows))
        for end, code in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            self._partition = partitions[code]
            for part in blocks.between(start, end):
                self._write_rows(part)
            self._end_file()
            start = end

    def _write_run(self, rows: pa.Table, order: pa.Array | None, start: int, end: int) -> None:
        for part in _OrderedBlocks(rows, order, self._options.rows_per_group(rows)).between(start, end):
            self._write_rows(part)

    def _write_rows(self, rows: pa.Table) -> None:
        if not len(rows):
            return
        if self._file is None:
            path = f"{self._folder}/{self._task:05d}-{self._named:05d}.parquet"
            self._named += 1
            self._file = ParquetFileWriter(self._io, path, rows, self._columns, self._options)
        self._file.write(rows)
        if self._file.size >= self._target:
            self._end_file()

    def _end_file(self) -> None:
        if self._file is not None:
            self._done.append(self._entry(self._file.close()))
            self._file = None

    def _entry(self, finished: FinishedFile) -> DataFile:
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
        return file


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copies a batch, because a column that was decoded from requests keeps everything decoded with it in memory."""
    return pa.RecordBatch.from_arrays([pa.concat_arrays([column]) for column in batch.columns], schema=batch.schema)


class _OrderedBlocks:
    """Yields sorted rows, one block of them copied at a time. Small partitions share a block."""

    def __init__(self, rows: pa.Table, order: pa.Array | None, size: int) -> None:
        self._rows = rows
        self._order = order
        self._size = size
        self._start = 0
        self._block = rows.slice(0, 0)
        self._told = [place for place, column in enumerate(rows.columns) if not are_null(column)]
        """The indices of columns with values. Columns of only nulls need no sorting."""

    def between(self, start: int, end: int) -> Iterator[pa.Table]:
        while start < end:
            if self._order is None:
                part = self._rows.slice(start, min(end - start, self._size))
            else:
                if start >= self._start + len(self._block):
                    self._start = start
                    self._block = self._taken(self._order.slice(start, self._size))
                part = self._block.slice(start - self._start, end - start)
            yield part
            start += len(part)

    def _taken(self, places: pa.Array) -> pa.Table:
        columns = self._rows.slice(0, len(places)).columns
        for place, column in zip(self._told, self._rows.select(self._told).take(places).columns, strict=True):
            columns[place] = column
        return pa.Table.from_arrays(columns, schema=self._rows.schema)
