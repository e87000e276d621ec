"""Computes the column metrics of a data file for its manifest entry: sizes, counts and bounds.

Readers skip files by these metrics. They are taken from the footer of the file that was just written, except the
counts of NaNs, which Parquet lacks and the writer counts itself. An unknown bound is left out, because a wrong one
would hide rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
)
from pyiceberg.utils.decimal import bytes_required

from frazil.errors import ConfigError
from frazil.lake.write.upper_bounds import bytes_above, text_above

DEFAULT_MODE = "write.metadata.metrics.default"
COLUMN_MODE = "write.metadata.metrics.column."
INFERRED_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"
_DEFAULT = "truncate(16)"
_INFERRED = 100
"""Tables with more columns than this have metrics only for the first ones, unless properties say otherwise."""

_INT, _LONG, _FLOAT, _DOUBLE, _BOOL = Struct("<i"), Struct("<q"), Struct("<f"), Struct("<d"), Struct("<?")


class Leaf(NamedTuple):
    """A leaf column of Parquet, with the metrics that are stored for it."""

    field_id: int
    kind: PrimitiveType
    name: str
    repeated: bool
    """This says whether it is inside a list or map. Then rows have any number of values, and counts and bounds say
    nothing."""
    counts: bool
    bounds: bool
    length: int | None
    """The length in characters or bytes to which bounds are truncated."""


def leaf_columns(schema: Schema, properties: Mapping[str, str], keys: Iterable[int] = ()) -> list[Leaf]:
    """Returns the leaf columns of a table in order. `keys` are the fields by which rows are partitioned or sorted."""
    found = [leaf for top in schema.fields for leaf in _leaves(top.field_id, top.field_type, top.name, False)]
    default = properties.get(DEFAULT_MODE)
    inferred = int(properties.get(INFERRED_COLUMNS, _INFERRED))
    important = set(keys)
    result = []
    for place, leaf in enumerate(found):
        unasked = _DEFAULT if place < inferred or leaf.field_id in important else "none"
        mode = properties.get(COLUMN_MODE + leaf.name, default or unasked)
        counts, bounds, length = _mode(mode)
        result.append(leaf._replace(counts=counts, bounds=bounds, length=length))
    return result


def _leaves(field_id: int, kind: IcebergType, name: str, repeated: bool) -> list[Leaf]:
    def inner(part: NestedField, repeated: bool) -> list[Leaf]:
        return _leaves(part.field_id, part.field_type, f"{name}.{part.name}", repeated)

    match kind:
        case StructType():
            return [leaf for part in kind.fields for leaf in inner(part, repeated)]
        case ListType():
            return inner(kind.element_field, True)
        case MapType():
            return inner(kind.key_field, True) + inner(kind.value_field, True)
        case PrimitiveType():
            return [Leaf(field_id, kind, name, repeated, True, True, None)]
    raise TypeError(f"{name} is {kind}")


def _mode(text: str) -> tuple[bool, bool, int | None]:
    text = text.strip().lower()
    simple: dict[str, tuple[bool, bool, int | None]] = {
        "none": (False, False, None),
        "counts": (True, False, None),
        "full": (True, True, None),
    }
    if text in simple:
        return simple[text]
    cut = re.fullmatch(r"truncate\((\d+)\)", text)
    if cut is None or int(cut[1]) == 0:
        raise ConfigError(
            f"Table property {DEFAULT_MODE} or one like it is {text!r}. Use none, counts, truncate(16) or full."
        )
    return True, True, int(cut[1])


@dataclass
class Metrics:
    """The metrics of a file's columns that a manifest stores, by field id."""

    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)
    split_offsets: list[int] = field(default_factory=list)


def from_footer(footer: pq.FileMetaData, columns: list[Leaf], nans: Mapping[int, int]) -> Metrics:
    metrics = Metrics(nan_value_counts=dict(nans))
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    metrics.split_offsets = [_start(group.column(0)) for group in groups]
    for place, leaf in enumerate(columns):
        chunks = [group.column(place) for group in groups]
        metrics.column_sizes[leaf.field_id] = sum(chunk.total_compressed_size for chunk in chunks)
        if leaf.counts and not leaf.repeated:
            _add_column(metrics, leaf, chunks)
    return metrics


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    data = int(chunk.data_page_offset)
    return min(data, int(chunk.dictionary_page_offset)) if chunk.has_dictionary_page else data


def _add_column(metrics: Metrics, leaf: Leaf, chunks: list[pq.ColumnChunkMetaData]) -> None:
    total = sum(chunk.num_values for chunk in chunks)
    metrics.value_counts[leaf.field_id] = total
    statistics = [chunk.statistics for chunk in chunks]
    if any(each is None or not each.has_null_count for each in statistics):
        return
    nulls = sum(each.null_count for each in statistics)
    metrics.null_value_counts[leaf.field_id] = nulls
    # A chunk of only nulls has no bounds and needs none. If a chunk has values and no bounds (they were too long),
    # the bounds of the whole file are unknown. NaNs count as values and have no bounds.
    filled = [each for each in statistics if each.has_min_max]
    without = sum(
        chunk.num_values - each.null_count
        for chunk, each in zip(chunks, statistics, strict=True)
        if not each.has_min_max
    )
    if not leaf.bounds or not filled:
        return
    if without and not (isinstance(leaf.kind, FloatType | DoubleType) and _nans_explain(metrics, leaf, without)):
        return
    ordered = _ordered(leaf.kind)
    lower = min((each.min_raw for each in filled), key=ordered)
    upper = max((each.max_raw for each in filled), key=ordered)
    if (low := _lower(leaf, lower)) is not None:
        metrics.lower_bounds[leaf.field_id] = low
    if (high := _upper(leaf, upper)) is not None:
        metrics.upper_bounds[leaf.field_id] = high


def _nans_explain(metrics: Metrics, leaf: Leaf, values: int) -> bool:
    return metrics.nan_value_counts.get(leaf.field_id, 0) >= values


def _ordered(kind: PrimitiveType) -> Any:
    """Returns the sort key for raw values of a type. Decimals in bytes compare as signed numbers."""
    return _unscaled if isinstance(kind, DecimalType) else (lambda value: value)


def _unscaled(value: int | bytes) -> int:
    return value if isinstance(value, int) else int.from_bytes(value, "big", signed=True)


def _lower(leaf: Leaf, value: Any) -> bytes | None:
    if leaf.length is not None and isinstance(leaf.kind, StringType):
        return bytes(value).decode()[: leaf.length].encode()
    if leaf.length is not None and isinstance(leaf.kind, BinaryType):
        return bytes(value)[: leaf.length]
    return _single(leaf.kind, value)


def _upper(leaf: Leaf, value: Any) -> bytes | None:
    if leaf.length is not None and isinstance(leaf.kind, StringType):
        return text_above(bytes(value).decode(), leaf.length)
    if leaf.length is not None and isinstance(leaf.kind, BinaryType):
        return bytes_above(bytes(value), leaf.length)
    return _single(leaf.kind, value)


def _single(kind: PrimitiveType, value: Any) -> bytes:
    """Converts a raw value of Parquet to Iceberg's single-value serialization."""
    match kind:
        case BooleanType():
            return _BOOL.pack(value)
        case IntegerType() | DateType():
            return _INT.pack(value)
        case FloatType():
            return _FLOAT.pack(value)
        case DoubleType():
            return _DOUBLE.pack(value)
        case DecimalType():
            number = _unscaled(value)
            return number.to_bytes(bytes_required(number), "big", signed=True)
    return _LONG.pack(value) if isinstance(value, int) else bytes(value)
