"""Damages the data files of a table, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.table import Table

from frazil.maintain.files import normalized_path
from frazil.maintain.manifest_reader import ManifestReader


def data_paths(table: Table) -> list[Path]:
    """Returns the paths of the data files of a local table."""
    return sorted(Path(normalized_path(file.file_path)) for file in ManifestReader().data_files(table))


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@contextmanager
def flipped(path: Path, bit: int) -> Iterator[None]:
    """Flips one bit of a file for a while."""
    flip(path, bit)
    try:
        yield
    finally:
        flip(path, bit)


def bit_of_column(path: Path, column: str) -> int:
    """Returns a bit in the middle of the last page of a column."""
    metadata = pq.read_metadata(path)
    group = metadata.row_group(metadata.num_row_groups - 1)
    (chunk,) = (each for each in map(group.column, range(group.num_columns)) if each.path_in_schema == column)
    start = chunk.data_page_offset
    end = (chunk.dictionary_page_offset or start) + chunk.total_compressed_size
    return 8 * int(end - (end - start) // 4)
