"""Several versions of a schema are merged into one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.formats.type_merging import merge_schemas, merge_types


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.null(), pa.string(), pa.string()),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 2)),
        (pa.decimal128(5, 2), pa.decimal128(9, 3), None),
        (pa.int64(), pa.float64(), None),
        (pa.string(), pa.binary(), None),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
        (pa.map_(pa.string(), pa.null()), pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int8())),
        (pa.list_(pa.int32()), pa.list_(pa.string()), None),
        (
            struct(a=pa.int32(), b=pa.string()),
            struct(c=pa.bool_(), a=pa.int64()),
            struct(a=pa.int64(), b=pa.string(), c=pa.bool_()),
        ),
        (struct(a=pa.int32()), pa.int32(), None),
    ],
)
def test_types(one: pa.DataType, other: pa.DataType, both: pa.DataType | None) -> None:
    assert merge_types(one, other) == both
    if not pa.types.is_struct(one):
        assert merge_types(other, one) == both


def test_of_types_that_clash_the_first_stays() -> None:
    schemas = [
        pa.schema([("a", kind), (f"b{number}", pa.bool_())]) for number, kind in enumerate([pa.int32(), pa.string()])
    ]
    assert merge_schemas(schemas) == pa.schema([("a", pa.int32()), ("b0", pa.bool_()), ("b1", pa.bool_())])
