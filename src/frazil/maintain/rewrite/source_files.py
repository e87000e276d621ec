"""Reads the rows of a data file in batches, with the columns that the table has now and without deleted rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from frazil.errors import IcebergError
from frazil.lake.catalog.storage import family
from frazil.lake.checksums.verification import verify_file
from frazil.lake.checksums.verifying_io import VerifyingFileIO
from frazil.lake.schema.arrow import FIELD_ID, arrow_schema
from frazil.scan.selection.bounded_cache import BoundedCache
from frazil.scan.table.data_files import DataFiles, TableFile
from frazil.scan.table.footers import Footer, Integers

_FOOTER_BYTES = 64 * 1024 * 1024
_DICTIONARY_BYTES = 64 * 1024
"""A dictionary that is larger, compressed, may be one that did not last for all pages of its column."""
_ENCODED = pa.dictionary(pa.int32(), pa.string())


class SourceFiles:
    """Reads files of one table, whole."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._names = [field.name for field in table.schema().fields]
        self.schema = arrow_schema(table.schema())
        """The columns of the rows that are read."""
        self._encoded: set[str] = set()
        self._files = DataFiles(table, table.schema(), BoundedCache(_FOOTER_BYTES))

    def check(self, file: TableFile) -> None:
        """Raises `TableDamaged` if the file or its delete files are damaged. Afterwards nobody could tell.

        Every byte of a local file with checksums is verified when it is read.
        """
        self._files.check_format(file)
        io = VerifyingFileIO.of(self._table)
        for each in (file.file, *file.deletes):
            if each is file.file and family(each.file_path) == "file":
                continue
            try:
                problem = verify_file(self._table.io, each).problem
            except FileNotFoundError:
                problem = "it is not there"
            if problem is not None:
                raise io.damaged(each.file_path, problem)

    def keep_dictionaries(self, files: Iterable[TableFile]) -> None:
        """Keeps texts dictionary-encoded from now on, where all these files have small dictionaries for them.

        Columns with nulls are read as they are: Arrow would write wrong statistics for them.
        """
        found = [self._dictionaries(file) for file in files]
        self._encoded = set.intersection(*found)
        fields = (
            field.with_type(_ENCODED) if field.name in self._encoded else field
            for field in arrow_schema(self._table.schema())
        )
        self.schema = pa.schema(list(fields))

    def _dictionaries(self, file: TableFile) -> set[str]:
        footer = self._files.footer(file)
        columns = self._files.columns(footer)
        found: set[str] = set()
        if any(FIELD_ID not in (field.metadata or {}) for field in footer.schema):
            # PyIceberg converts such files, and knows no dictionaries.
            return found
        for field in arrow_schema(self._table.schema()):
            name = columns.name(field.name)
            if pa.types.is_string(field.type) and name is not None and _has_small_dictionaries(footer, name):
                found.add(field.name)
        return found

    def row_bytes(self, file: TableFile) -> int:
        """Returns about how many bytes a row of the file takes when it is not compressed."""
        metadata = self._files.footer(file).metadata
        total = sum(int(metadata.row_group(group).total_byte_size) for group in range(metadata.num_row_groups))
        return max(1, total // max(1, file.rows))

    def batches(self, file: TableFile, rows: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file in batches of so many rows at most."""
        footer, deleted = self._files.footer(file), self._files.deleted(file)
        columns = self._files.columns(footer)
        names, constants, position = columns.names(self._names), dict(file.constants), 0
        encoded = columns.names([name for name in self._names if name in self._encoded])
        if not names:
            raise IcebergError(f"Data file {file.path} has none of the table's columns, so it is left as it is.")
        for group in range(footer.metadata.num_row_groups):
            for found in self._files.batches(file, group, names, rows, encoded):
                batch = columns.convert(found, self._names, self.schema, constants)
                left = batch if deleted is None else _without(batch, deleted, position)
                position += len(batch)
                if len(left):
                    yield left


def _has_small_dictionaries(footer: Footer, name: str) -> bool:
    (leaf,) = footer.columns[name]
    chunks = [footer.metadata.row_group(group).column(leaf) for group in range(footer.metadata.num_row_groups)]
    return all(
        chunk.has_dictionary_page
        and chunk.data_page_offset - chunk.dictionary_page_offset <= _DICTIONARY_BYTES
        and chunk.is_stats_set
        and chunk.statistics.has_null_count
        and not chunk.statistics.null_count
        for chunk in chunks
    )


def _without(batch: pa.RecordBatch, deleted: Integers, position: int) -> pa.RecordBatch:
    first, last = np.searchsorted(deleted, (position, position + len(batch)))
    if first == last:
        return batch
    kept = np.ones(len(batch), np.bool_)
    kept[deleted[first:last] - position] = False
    return batch.filter(pa.array(kept))
