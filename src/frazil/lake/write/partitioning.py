"""Finds the partition of the table that each row belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record

from frazil.lake.schema.arrow import column_getter
from frazil.lake.write.transforms import kernel


class PartitionedRows(NamedTuple):
    codes: pa.Array
    """This has, for each row, the index of its partition in `partitions` (int64)."""
    partitions: list[Record]


class Partitioner:
    """Assigns the rows of a table to partitions by its partition spec."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        self._fields = [_reader(field, schema) for field in spec.fields]

    @property
    def trivial(self) -> bool:
        """Returns whether the table is not partitioned."""
        return not self._fields

    def split(self, rows: pa.Table) -> PartitionedRows:
        coded = [read(rows).dictionary_encode(null_encoding="encode") for read in self._fields]
        codes = coded[0].indices.cast(pa.int64())
        combined = [(place,) for place in range(len(coded[0].dictionary))]
        for column in coded[1:]:
            # After each field only the combinations that occur get a code, so the codes stay small.
            size = len(column.dictionary)
            both = pc.add(pc.multiply(codes, size), column.indices.cast(pa.int64())).dictionary_encode()
            combined = [(*combined[code // size], code % size) for code in both.dictionary.to_pylist()]
            codes = both.indices.cast(pa.int64())
        values = [_plain_values(column.dictionary) for column in coded]
        records = [Record(*(values[i][place] for i, place in enumerate(places))) for places in combined]
        return PartitionedRows(codes, records)


def _reader(field: PartitionField, schema: Schema) -> Callable[[pa.Table], pa.Array]:
    if isinstance(field.transform, VoidTransform):
        # This field was removed from the partition spec. Its column may be gone too.
        return lambda rows: pa.nulls(len(rows), pa.int32())
    get = column_getter(schema, field.source_id)
    change = kernel(field.transform, schema.find_type(field.source_id))
    return lambda rows: change(get(rows))


def _plain_values(array: pa.Array) -> list[Any]:
    """Returns the values as manifests store them: times and dates are numbers."""
    if types.is_date32(array.type):
        array = array.view(pa.int32())
    elif types.is_timestamp(array.type) or types.is_time64(array.type):
        array = array.view(pa.int64())
    return list(array.to_pylist())
