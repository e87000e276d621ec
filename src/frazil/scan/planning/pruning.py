"""Chooses the files of a snapshot that may have wanted rows, all at once by their statistics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import PrimitiveType

from frazil.scan.planning.file_index import FileIndex, Integers
from frazil.scan.predicates.partitions import partition_statistics
from frazil.scan.predicates.statistics import ColumnStatistics, may_match
from frazil.scan.predicates.terms import path_of, term_column, terms_of
from frazil.scan.predicates.tree import Predicate
from frazil.scan.selection.row_filter import RowFilter
from frazil.scan.selection.time_column import LEAST, MOST, TimeColumn

Flags = npt.NDArray[np.bool_]

_MICROSECOND = 1000
_WHOLE = MOST // _MICROSECOND - 1


class TimeBounds(NamedTuple):
    """Has bounds of the times in each file, or row group, in nanoseconds."""

    first: Integers
    last: Integers

    @classmethod
    def of(cls, column: TimeColumn, known: ColumnStatistics, count: int) -> TimeBounds:
        """Returns bounds that hold for rows without a time, too: their time is taken for the least."""
        first, last = np.full(count, LEAST, np.int64), np.full(count, MOST, np.int64)
        if known.lower is None or known.upper is None or known.nulls is None:
            return cls(first, last)
        lower, upper = column.microseconds(known.lower), column.microseconds(known.upper)
        has_lower = known.lower.is_valid().to_numpy(zero_copy_only=False) & _are_zero(known.nulls)
        has_upper = known.upper.is_valid().to_numpy(zero_copy_only=False)
        inside = (lower > -_WHOLE) & (lower < _WHOLE) & has_lower
        first[inside] = lower[inside] * _MICROSECOND
        inside = (upper > -_WHOLE) & (upper < _WHOLE) & has_upper
        last[inside] = upper[inside] * _MICROSECOND + _MICROSECOND - 1
        return cls(first, last)

    def touching(self, start_ns: int | None, end_ns: int | None) -> Flags:
        found = np.ones(len(self.first), np.bool_)
        if start_ns is not None:
            found &= self.last >= max(LEAST, min(MOST, start_ns))
        if end_ns is not None:
            found &= self.first < max(LEAST, min(MOST, end_ns)) if end_ns <= MOST else True
        return found


def file_time_bounds(index: FileIndex, schema: Schema, column: TimeColumn) -> TimeBounds:
    field = next((each for each in schema.fields if each.name == column.name), None)
    if field is None or not isinstance(field.field_type, PrimitiveType):
        return TimeBounds.of(column, ColumnStatistics(), len(index))
    return TimeBounds.of(column, index.statistics(field.field_id, field.field_type), len(index))


def matching_files(
    index: FileIndex, metadata: TableMetadata, rows: pa.Schema, wanted: RowFilter, times: TimeBounds | None
) -> Flags:
    """Returns for each file whether it may have wanted rows."""
    found = index.rows > 0
    if times is not None and wanted.time is not None:
        found &= times.touching(wanted.time.start_ns, wanted.time.end_ns)
    predicate = wanted.pruning
    if predicate is None or not found.any():
        return found
    columns = _columns(predicate, rows, metadata.schema())
    statistics = {name: index.statistics(field_id, kind) for name, (field_id, kind) in columns.items()}
    found &= may_match(predicate, rows, statistics, len(index))
    return found & _in_partitions(index, metadata, rows, predicate, columns)


def foremost_files(places: Integers, times: TimeBounds | None, most: int | None, *, newest: bool) -> Integers:
    """Returns at most so many of the files: those that end last, or those that begin first."""
    if most is None or len(places) <= most:
        return places
    if times is None:
        return places[:most]
    order = np.argsort(-times.last[places] if newest else times.first[places], kind="stable")
    return np.sort(places[order[:most]])


def _columns(predicate: Predicate, rows: pa.Schema, table: Schema) -> dict[str, tuple[int, PrimitiveType]]:
    """Returns id and type of the columns that the predicate uses and the table has statistics for."""
    found = {}
    for term in terms_of(predicate):
        name = term_column(term)
        path_of(term, rows)
        try:
            field = table.find_field(name)
        except ValueError:
            # The log has the column already, and the table will get it.
            continue
        if isinstance(field.field_type, PrimitiveType):
            found[name] = (field.field_id, field.field_type)
    return found


def _in_partitions(
    index: FileIndex,
    metadata: TableMetadata,
    rows: pa.Schema,
    predicate: Predicate,
    columns: dict[str, tuple[int, PrimitiveType]],
) -> Flags:
    """Returns which files may have such rows by their partition values."""
    found = np.ones(len(index), np.bool_)
    names = {field_id: name for name, (field_id, _) in columns.items()}
    for spec_id in np.unique(index.spec_ids).tolist():
        spec = metadata.specs().get(spec_id)
        used = [(at, each) for at, each in enumerate(spec.fields) if each.source_id in names] if spec else []
        for at, each in used:
            places = np.flatnonzero(index.spec_ids == spec_id)
            name = names[each.source_id]
            known = _partition_statistics(index, places, at, each.transform, rows.field(name).type)
            if known is not None:
                found[places] &= may_match(predicate, rows, {name: known}, len(places))
    return found


def _partition_statistics(
    index: FileIndex, places: Integers, at: int, transform: object, kind: pa.DataType
) -> ColumnStatistics | None:
    try:
        values = pa.array([index.partitions[place][at] for place in places.tolist()])
        return partition_statistics(transform, values, kind)  # type: ignore[arg-type]
    except (pa.ArrowException, TypeError, ValueError):
        # Values of a type that Arrow does not know say nothing here.
        return None


def _are_zero(counts: pa.Array) -> Flags:
    found: Flags = (counts.fill_null(1).to_numpy() == 0).astype(np.bool_)
    return found
