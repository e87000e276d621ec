"""Writes one Parquet data file, with the options from the table's properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types
from pyiceberg.io import FileIO

from frazil.errors import ConfigError, FileUpload, ParquetWrite
from frazil.lake.checksums.file_checksums import ChecksummedFile
from frazil.lake.schema.arrow import FIELD_ID
from frazil.lake.write.statistics import Leaf, Metrics, from_footer

CODEC = "write.parquet.compression-codec"
LEVEL = "write.parquet.compression-level"
_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "lz4": "lz4",
    "gzip": "gzip",
    "brotli": "brotli",
    "uncompressed": "none",
}
_LEVELLED = {"zstd", "gzip", "brotli"}
_GROUP_BYTES = "write.parquet.row-group-size-bytes"
_GROUP_ROWS = "write.parquet.row-group-limit"
_PAGE_BYTES = "write.parquet.page-size-bytes"
_PAGE_ROWS = "write.parquet.page-row-limit"
_DICTIONARY_BYTES = "write.parquet.dict-size-bytes"
_MEBIBYTE = 1024 * 1024
_SAMPLE_ROWS = 10_000


class ParquetOptions(NamedTuple):
    """The Parquet options of a table."""

    group_bytes: int
    """The size of a row group, in bytes of Arrow memory."""
    group_rows: int
    arguments: dict[str, Any]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ParquetOptions:
        codec = properties.get(CODEC, "zstd").strip().lower()
        if codec not in _CODECS:
            raise ConfigError(f"Table property {CODEC} is {codec!r}. Use one of: {', '.join(_CODECS)}.")
        level = _number(properties, LEVEL, 0) if codec in _LEVELLED and LEVEL in properties else None
        arguments: dict[str, Any] = {
            "compression": _CODECS[codec],
            "compression_level": level,
            "data_page_size": _number(properties, _PAGE_BYTES, _MEBIBYTE),
            "max_rows_per_page": _number(properties, _PAGE_ROWS, 20_000),
            # This is half of Iceberg's default. Lookups in larger dictionaries cost more than they save.
            "dictionary_pagesize_limit": _number(properties, _DICTIONARY_BYTES, _MEBIBYTE),
            "write_page_index": True,
            "write_page_checksum": True,
            "store_decimal_as_integer": True,
            # Parquet's own schema is enough, and it is all that other readers know.
            "store_schema": False,
        }
        return cls(
            max(1, _number(properties, _GROUP_BYTES, 128 * _MEBIBYTE)),
            max(1, _number(properties, _GROUP_ROWS, _MEBIBYTE)),
            arguments,
        )

    def rows_per_group(self, rows: pa.Table) -> int:
        """Returns how many rows of this size make a row group."""
        each = max(1, int(rows.nbytes) // max(1, len(rows)))
        return max(1, min(self.group_rows, self.group_bytes // each))


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name)
    try:
        return default if text is None else int(text)
    except ValueError as error:
        raise ConfigError(f"Table property {name} is {text!r}. Use a whole number.") from error


class FinishedFile(NamedTuple):
    path: str
    rows: int
    bytes: int
    metrics: Metrics


class ParquetFileWriter:
    """Writes a file one row group at a time. `first` are the first rows that will be written."""

    def __init__(self, io: FileIO, path: str, first: pa.Table, columns: list[Leaf], options: ParquetOptions) -> None:
        schema = first.schema
        self.path = path
        self._io = io
        self._columns = columns
        self._floats = list(
            _float_leaves(schema, {leaf.field_id for leaf in columns if leaf.counts and not leaf.repeated})
        )
        self._nans = {field_id: 0 for field_id, _ in self._floats}
        with _failures_told(path):
            self._sink = ChecksummedFile(io.new_output(path).create(overwrite=False))
            try:
                repeated = _worth_a_dictionary(first)
                self._writer = pq.ParquetWriter(self._sink, schema, use_dictionary=repeated, **options.arguments)
            except BaseException:
                self._sink.close()
                raise

    @property
    def size(self) -> int:
        """Returns how many bytes were written so far."""
        return self._sink.tell()

    def write(self, rows: pa.Table) -> None:
        """Writes the rows as one row group."""
        with _failures_told(self.path):
            self._writer.write_table(rows, row_group_size=len(rows))
        for field_id, places in self._floats:
            self._nans[field_id] += _count_nans(rows, places)

    def close(self) -> FinishedFile:
        """Finishes the file. It is as durable as its storage makes it."""
        with _failures_told(self.path):
            self._sink.hold()
            self._writer.close()
            self._sink.close()
        footer = self._writer.writer.metadata
        return FinishedFile(self.path, footer.num_rows, self.size, from_footer(footer, self._columns, self._nans))

    def abort(self) -> None:
        """Stops writing and removes the file."""
        for end in (self._writer.close, self._sink.close):
            try:
                end()
            except (OSError, ValueError, pa.ArrowException):
                continue
        remove(self._io, self.path)


def remove(io: FileIO, path: str) -> None:
    """Removes a file that nobody else knows of. If that fails, it is left to the removal of orphans."""
    try:
        io.delete(path)
    except OSError:
        return


@contextmanager
def _failures_told(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise ParquetWrite(
            f"Data file {path} is there already. Each task needs a folder or number of its own."
        ) from error
    except OSError as error:
        raise FileUpload(f"Data file {path} could not be stored: {error}.") from error
    except pa.ArrowException as error:
        raise ParquetWrite(f"Data file {path} could not be written: {error}.") from error


def _worth_a_dictionary(rows: pa.Table) -> list[str]:
    """Returns the Parquet columns that get a dictionary: all but numbers, times and ids that are mostly distinct."""
    sample = rows.slice(0, _SAMPLE_ROWS)
    columns = [
        field
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if not (_is_short(field.type) and 2 * pc.count_distinct(column).as_py() > len(sample))
    ]
    return [path for field in columns for path in _paths(field.name, field.type)]


def _is_short(kind: pa.DataType) -> bool:
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_timestamp(kind)
    return bool(number or types.is_fixed_size_binary(kind))


def _paths(name: str, kind: pa.DataType) -> list[str]:
    if types.is_map(kind):
        entry = f"{name}.key_value"
        return _paths(f"{entry}.key", kind.key_type) + _paths(f"{entry}.value", kind.item_type)
    if types.is_list(kind):
        return _paths(f"{name}.list.element", kind.value_type)
    if types.is_struct(kind):
        return [path for part in kind.fields for path in _paths(f"{name}.{part.name}", part.type)]
    return [name]


def _float_leaves(schema: pa.Schema, wanted: set[int]) -> Iterator[tuple[int, list[int]]]:
    """Yields field id and path (column index, then field indices) of each wanted float field."""
    for place, field in enumerate(schema):
        yield from _floats_in(field, [place], wanted)


def _floats_in(field: pa.Field, places: list[int], wanted: set[int]) -> Iterator[tuple[int, list[int]]]:
    field_id = int(field.metadata[FIELD_ID])
    if types.is_floating(field.type) and field_id in wanted:
        yield field_id, places
    elif types.is_struct(field.type):
        for place, part in enumerate(field.type.fields):
            yield from _floats_in(part, [*places, place], wanted)


def _count_nans(rows: pa.Table, places: list[int]) -> int:
    column = rows.column(places[0])
    for place in places[1:]:
        column = column.flatten()[place]
    return pc.sum(pc.is_nan(column)).as_py() or 0
