"""Rules out files by the hash that Iceberg's `bucket` transform gives to values."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import (
    is_binary,
    is_date32,
    is_decimal,
    is_integer,
    is_large_binary,
    is_time,
    is_timestamp,
)
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import BinaryType, DecimalType, LongType, PrimitiveType, StringType

from frazil.scan.predicates.terms import is_text


@dataclass(frozen=True)
class Buckets:
    """Is known of a column by whose hash files are partitioned."""

    count: int
    numbers: pa.Array
    """By file, the number of the bucket that all its values are in; null where that is unknown."""

    def may_have(self, values: list[pa.Scalar]) -> pa.Array | bool:
        """Returns which files may have one of the values, and null where that is unknown."""
        numbers = [bucket_of(value, self.count) for value in values]
        if None in numbers:
            return True
        found = pc.is_in(self.numbers, value_set=pa.array(numbers, self.numbers.type))
        return pc.if_else(self.numbers.is_valid(), found, pa.scalar(None, pa.bool_()))


def bucket_of(value: pa.Scalar, count: int) -> int | None:
    """Returns the bucket of a value, or None for types whose values Iceberg does not hash or hashes otherwise."""
    kind = value.type
    iceberg: PrimitiveType
    if is_decimal(kind):
        iceberg, plain = DecimalType(kind.precision, kind.scale), value.as_py()
    elif is_integer(kind):
        iceberg, plain = LongType(), value.as_py()
    elif is_date32(kind) or ((is_timestamp(kind) or is_time(kind)) and kind.unit == "us"):
        # Iceberg hashes the number that is stored.
        iceberg, plain = LongType(), value.value
    elif is_text(kind):
        iceberg, plain = StringType(), value.as_py()
    elif is_binary(kind) or is_large_binary(kind):
        iceberg, plain = BinaryType(), value.as_py()
    else:
        return None
    return BucketTransform(count).transform(iceberg)(plain)
