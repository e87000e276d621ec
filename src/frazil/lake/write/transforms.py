"""Applies Iceberg's partition transforms to whole Arrow arrays.

PyIceberg's own transforms need an additional library or work value by value. Where Arrow has no suitable kernel
(buckets of strings, truncated decimals), each distinct value is transformed once.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
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
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from frazil.errors import TableSchemaMismatch
from frazil.lake.schema.arrow import arrow_type

Kernel = Callable[[pa.Array], pa.Array]

_DAY_MICROSECONDS = 86_400_000_000
_HOUR_MICROSECONDS = 3_600_000_000
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
"""The calendar repeats after one cycle. Arrow's calendar is used inside a cycle, so any year works."""


def kernel(transform: Transform, source: IcebergType) -> Kernel:  # type: ignore[type-arg]
    """Returns the transform as a function of arrays, which must not have an extension type."""
    match transform:
        case IdentityTransform():
            return lambda array: array
        case BucketTransform():
            return _bucket(transform, source)
        case TruncateTransform():
            return _truncate(transform, source)
        case YearTransform():
            return lambda array: _years(_days(array, source)).cast(pa.int32())
        case MonthTransform():
            return lambda array: _months(_days(array, source)).cast(pa.int32())
        case DayTransform():
            return lambda array: _days(array, source).cast(pa.int32()).view(pa.date32())
        case HourTransform():
            # Hours of times outside the calendar wrap around, as they do in Java.
            return lambda array: floor_divide(_microseconds(array, source), _HOUR_MICROSECONDS).cast(
                pa.int32(), safe=False
            )
    raise TableSchemaMismatch(f"The table uses the transform {transform}, which Frazil does not know.")


def floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    """Divides and rounds down, where Arrow rounds towards zero."""
    quotient = pc.divide(values, divisor)
    first = pc.min(values).as_py()
    if first is None or first >= 0:
        return quotient
    below = pc.and_(pc.less(values, 0), pc.not_equal(pc.modulo(values, divisor), 0))
    return pc.subtract(quotient, below.cast(values.type))


def _microseconds(array: pa.Array, source: IcebergType) -> pa.Array:
    counts = array.view(pa.int64())
    nanoseconds = isinstance(source, TimestampNanoType | TimestamptzNanoType)
    return floor_divide(counts, 1000) if nanoseconds else counts


def _days(array: pa.Array, source: IcebergType) -> pa.Array:
    if isinstance(source, DateType):
        return array.view(pa.int32()).cast(pa.int64())
    return floor_divide(_microseconds(array, source), _DAY_MICROSECONDS)


def _years(days: pa.Array) -> pa.Array:
    cycles, dates = _cycles(days)
    return pc.add(pc.multiply(cycles, _CYCLE_YEARS), pc.subtract(pc.year(dates), 1970))


def _months(days: pa.Array) -> pa.Array:
    cycles, dates = _cycles(days)
    years = pc.add(pc.multiply(cycles, _CYCLE_YEARS), pc.subtract(pc.year(dates), 1970))
    return pc.add(pc.multiply(years, 12), pc.subtract(pc.month(dates), 1))


def _cycles(days: pa.Array) -> tuple[pa.Array, pa.Array]:
    within = pc.modulo(days, _CYCLE_DAYS)
    return floor_divide(days, _CYCLE_DAYS), within.cast(pa.int32()).view(pa.date32())


def _truncate(transform: TruncateTransform, source: IcebergType) -> Kernel:  # type: ignore[type-arg]
    width = transform.width
    match source:
        case IntegerType() | LongType():
            return lambda array: pc.subtract(array, pc.modulo(array, pa.scalar(width, array.type)))
        case StringType():
            return lambda array: pc.utf8_slice_codeunits(array, 0, width)
        case BinaryType():
            return lambda array: pc.binary_slice(array, 0, width)
    return _by_value(transform, source)


def _bucket(transform: BucketTransform, source: IcebergType) -> Kernel:  # type: ignore[type-arg]
    count = transform.num_buckets
    match source:
        case IntegerType() | LongType():
            return lambda array: _buckets(array.cast(pa.int64()), count)
        case DateType():
            return lambda array: _buckets(array.view(pa.int32()).cast(pa.int64()), count)
        case TimeType():
            return lambda array: _buckets(array.view(pa.int64()), count)
        case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
            return lambda array: _buckets(_microseconds(array, source), count)
    return _by_value(transform, source)


def _by_value(transform: Transform, source: IcebergType) -> Kernel:  # type: ignore[type-arg]
    one = transform.transform(source)
    result = arrow_type(transform.result_type(source))
    # A truncated decimal may have one digit more than its type allows.
    result = pa.decimal128(38, source.scale) if isinstance(source, DecimalType) and result != pa.int32() else result

    def change(array: pa.Array) -> pa.Array:
        coded = array.dictionary_encode()
        values = pa.array([one(value) for value in coded.dictionary.to_pylist()], result)
        return values.take(coded.indices)

    return change


def _buckets(values: pa.Array, count: int) -> pa.Array:
    """Assigns buckets as Iceberg does, by the 32-bit Murmur3 hash of each number's eight bytes."""
    bits = values.view(pa.uint64())
    low = pc.bit_wise_and(bits, pa.scalar(0xFFFF_FFFF, pa.uint64())).cast(pa.uint32())
    high = pc.shift_right(bits, pa.scalar(32, pa.uint64())).cast(pa.uint32())
    mixed = _round(_mixed(low), None)
    mixed = _round(_mixed(high), mixed)
    mixed = pc.bit_wise_xor(mixed, _u32(8))
    for shift, factor in ((16, 0x85EB_CA6B), (13, 0xC2B2_AE35), (16, None)):
        mixed = pc.bit_wise_xor(mixed, pc.shift_right(mixed, _u32(shift)))
        if factor is not None:
            mixed = pc.multiply(mixed, _u32(factor))
    positive = pc.bit_wise_and(mixed, _u32(0x7FFF_FFFF)).cast(pa.int32())
    return pc.modulo(positive, pa.scalar(count, pa.int32()))


def _mixed(block: pa.Array) -> pa.Array:
    return pc.multiply(_rotated(pc.multiply(block, _u32(0xCC9E_2D51)), 15), _u32(0x1B87_3593))


def _round(block: pa.Array, mixed: pa.Array | None) -> pa.Array:
    joined = block if mixed is None else pc.bit_wise_xor(mixed, block)
    return pc.add(pc.multiply(_rotated(joined, 13), _u32(5)), _u32(0xE654_6B64))


def _rotated(values: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_or(pc.shift_left(values, _u32(bits)), pc.shift_right(values, _u32(32 - bits)))


def _u32(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint32())
