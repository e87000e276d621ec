"""Has the data files of a snapshot as arrays, so that files are chosen without a loop over them.

Manifests never change. So each is read once, and a new snapshot costs only its new manifests.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestFile
from pyiceberg.types import PrimitiveType

from frazil.scan.planning.column_bounds import bounds_array
from frazil.scan.predicates.statistics import ColumnStatistics

Integers = npt.NDArray[np.int64]
_FILE_BYTES = 300
"""A file takes about this much memory without its statistics."""


class _RawStatistics(NamedTuple):
    """Has the statistics of one column as a manifest stores them."""

    lower: pa.BinaryArray
    upper: pa.BinaryArray
    nulls: pa.Int64Array
    values: pa.Int64Array

    @property
    def nbytes(self) -> int:
        return sum(int(each.nbytes) for each in self)

    @classmethod
    def of(cls, files: Sequence[DataFile], field_id: int) -> _RawStatistics:
        return cls(
            _gathered(files, "lower_bounds", field_id, pa.binary()),
            _gathered(files, "upper_bounds", field_id, pa.binary()),
            _gathered(files, "null_value_counts", field_id, pa.int64()),
            _gathered(files, "value_counts", field_id, pa.int64()),
        )

    @classmethod
    def unknown(cls, files: int) -> _RawStatistics:
        bounds, counts = pa.nulls(files, pa.binary()), pa.nulls(files, pa.int64())
        return cls(bounds, bounds, counts, counts)


@dataclass(frozen=True)
class ManifestFiles:
    """Has the data files of one manifest."""

    spec_id: int
    paths: tuple[str, ...]
    formats: tuple[FileFormat, ...]
    partitions: tuple[tuple[Any, ...], ...]
    """The partition values of each file, in the order of the partition spec."""
    rows: Integers
    sizes: Integers
    statistics: Mapping[int, _RawStatistics]
    """The statistics of columns, by field id."""

    @classmethod
    def read(cls, manifest: ManifestFile, io: FileIO) -> ManifestFiles:
        files = [entry.data_file for entry in manifest.fetch_manifest_entry(io)]
        fields = {key for file in files for key in (file.value_counts or file.lower_bounds or ())}
        return cls(
            manifest.partition_spec_id,
            tuple(file.file_path for file in files),
            tuple(file.file_format for file in files),
            tuple(tuple(file.partition[at] for at in range(len(file.partition))) for file in files),
            np.array([file.record_count for file in files], np.int64),
            np.array([file.file_size_in_bytes for file in files], np.int64),
            {field_id: _RawStatistics.of(files, field_id) for field_id in fields},
        )

    @cached_property
    def nbytes(self) -> int:
        return _FILE_BYTES * len(self.paths) + sum(each.nbytes for each in self.statistics.values())


@dataclass(frozen=True)
class FileIndex:
    """Has the data files of one snapshot. Any thread may use it."""

    manifests: tuple[ManifestFiles, ...]
    _columns: dict[tuple[int, PrimitiveType], ColumnStatistics] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def paths(self) -> list[str]:
        return [path for manifest in self.manifests for path in manifest.paths]

    @cached_property
    def formats(self) -> list[FileFormat]:
        return [each for manifest in self.manifests for each in manifest.formats]

    @cached_property
    def partitions(self) -> list[tuple[Any, ...]]:
        return [values for manifest in self.manifests for values in manifest.partitions]

    @cached_property
    def rows(self) -> Integers:
        return _joined(manifest.rows for manifest in self.manifests)

    @cached_property
    def sizes(self) -> Integers:
        return _joined(manifest.sizes for manifest in self.manifests)

    @cached_property
    def spec_ids(self) -> Integers:
        return _joined(np.full(len(each.paths), each.spec_id, np.int64) for each in self.manifests)

    @property
    def nbytes(self) -> int:
        return sum(manifest.nbytes for manifest in self.manifests)

    def data_file(self, at: int) -> DataFile:
        """Returns a file as a manifest entry has it, without statistics."""
        found = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.paths[at],
            file_format=self.formats[at],
            record_count=int(self.rows[at]),
            file_size_in_bytes=int(self.sizes[at]),
        )
        found.spec_id = int(self.spec_ids[at])
        return found

    def statistics(self, field_id: int, kind: PrimitiveType) -> ColumnStatistics:
        """Returns the statistics of a column as values of this type. They are made when they are first asked for."""
        with self._lock:
            found = self._columns.get((field_id, kind))
            if found is None:
                found = self._columns[field_id, kind] = self._typed(field_id, kind)
        return found

    def _typed(self, field_id: int, kind: PrimitiveType) -> ColumnStatistics:
        raw = [each.statistics.get(field_id) or _RawStatistics.unknown(len(each.paths)) for each in self.manifests]
        lower, upper, nulls, values = map(pa.concat_arrays, zip(_RawStatistics.unknown(0), *raw, strict=True))
        return ColumnStatistics(bounds_array(lower, kind), bounds_array(upper, kind), nulls, values)


def _gathered(files: Sequence[DataFile], attribute: str, field_id: int, kind: pa.DataType) -> pa.Array:
    return pa.array([(getattr(file, attribute) or {}).get(field_id) for file in files], kind)


def _joined(arrays: Iterable[Integers]) -> Integers:
    return np.concatenate([np.empty(0, np.int64), *arrays])
