"""Says what the partition values of files tell of the columns that they were made of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_binary, is_date32, is_decimal, is_integer, is_large_binary, is_timestamp
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)

from frazil.scan.predicates.buckets import Buckets
from frazil.scan.predicates.fitting import comparable_type
from frazil.scan.predicates.statistics import ColumnStatistics
from frazil.scan.predicates.terms import is_text

_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def partition_statistics(transform: Transform[Any, Any], values: pa.Array, kind: pa.DataType) -> ColumnStatistics:
    """Returns what is known of a column of type `kind`, by file, where files have these partition values.

    `values` are as Iceberg stores them: numbers of days, hours, months and years since 1970 and of buckets, else
    values of the column's own type. A file whose value is null has only nulls in the column. For a transform that is
    not known here, that is all that is told.
    """
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    # Each file counts as one value, which is null or is not.
    nulls, ones = values.is_null().cast(pa.int64()), pa.array([1] * len(values), pa.int64())
    if isinstance(transform, BucketTransform):
        return ColumnStatistics(None, None, nulls, ones, Buckets(transform.num_buckets, values.cast(pa.int32())))
    try:
        lower, upper = _bounds(transform, values, comparable_type(kind))
    except (pa.ArrowException, OverflowError):
        lower = upper = None
    if str(transform) == "void":
        return ColumnStatistics()
    return ColumnStatistics(lower, upper, nulls, ones)


def _bounds(
    transform: Transform[Any, Any], values: pa.Array, kind: pa.DataType
) -> tuple[pa.Array | None, pa.Array | None]:
    """Raises an error of Arrow's if there are bounds that the type cannot express."""
    match transform:
        case IdentityTransform():
            found = values.cast(kind)
            return found, found
        case TruncateTransform(width=width):
            return _truncated(values, width, kind)
        case DayTransform() | HourTransform() | MonthTransform() | YearTransform():
            return _periods(transform, values.cast(pa.int64()), kind)
    return None, None


def _truncated(values: pa.Array, width: int, kind: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    if is_integer(kind):
        # What would be less than the least integer was wrapped around, to where no whole interval fits.
        most = pa.scalar(2 ** (kind.bit_width - 1) - width, pa.int64())
        lower = values.cast(pa.int64())
        lower = pc.if_else(pc.less_equal(lower, most), lower, pa.scalar(None, pa.int64()))
        return lower, pc.add(lower, pa.scalar(width - 1, pa.int64()))
    if is_decimal(kind):
        step = pa.scalar(width - 1).cast(pa.decimal128(19, 0)).as_py().scaleb(-kind.scale)
        lower = values.cast(kind)
        return lower, pc.add_checked(lower, pa.scalar(step, kind))
    if is_text(kind):
        length = pc.utf8_length(values)
    elif is_binary(kind) or is_large_binary(kind):
        length = pc.binary_length(values)
    else:
        return values, None
    # A value that is shorter than the width is whole. Of others it is not known how they end.
    return values, pc.if_else(pc.less(length, width), values, pa.scalar(None, values.type))


def _periods(
    transform: Transform[Any, Any], numbers: pa.Array, kind: pa.DataType
) -> tuple[pa.Array | None, pa.Array | None]:
    one = pa.scalar(1, pa.int64())
    # Some writers rounded times before 1970 towards it, so the period before may be in the same partition.
    first = pc.if_else(pc.less_equal(numbers, 0), pc.subtract_checked(numbers, one), numbers)
    after = pc.add_checked(numbers, one)
    starts, ends = _days(transform, first), _days(transform, after)
    if is_date32(kind):
        if isinstance(transform, HourTransform):
            return None, None
        return (
            starts.cast(pa.int32()).cast(kind),
            pc.subtract_checked(ends, one).cast(pa.int32()).cast(kind),
        )
    if not is_timestamp(kind):
        return None, None
    unit = pa.scalar(_PER_DAY[kind.unit], pa.int64())
    if isinstance(transform, HourTransform):
        unit = pa.scalar(_PER_DAY[kind.unit] // 24, pa.int64())
        starts, ends = first, after
    return (
        pc.multiply_checked(starts, unit).cast(kind),
        pc.subtract_checked(pc.multiply_checked(ends, unit), one).cast(kind),
    )


def _days(transform: Transform[Any, Any], numbers: pa.Array) -> pa.Array:
    """Returns the days since 1970 at which these periods begin."""
    if not isinstance(transform, MonthTransform | YearTransform):
        return numbers
    unit = "datetime64[M]" if isinstance(transform, MonthTransform) else "datetime64[Y]"
    filled = numbers.fill_null(0).to_numpy().astype(unit).astype("datetime64[D]").astype("int64")
    return pa.array(filled, mask=numbers.is_null().to_numpy(zero_copy_only=False))
