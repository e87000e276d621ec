"""Random topics for tests: schemas of every kind, and rows for them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

# Years are in the range of Python's dates, because rows are compared as Python values.
_MICROSECONDS = st.integers(-62_000_000_000_000_000, 250_000_000_000_000_000)
_TEXT = st.text(max_size=20) | st.text("aé€😀\U0010ffff", min_size=14, max_size=20)
_LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float16(): st.floats(width=16),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): _TEXT,
    pa.binary(): st.binary(max_size=20) | st.binary(min_size=1, max_size=1).map(lambda one: one * 18),
    pa.binary(4): st.binary(min_size=4, max_size=4),
    pa.decimal128(5, 2): st.integers(-99_999, 99_999).map(lambda number: Decimal(number).scaleb(-2)),
    pa.decimal128(15, 0): st.integers(-(10**15) + 1, 10**15 - 1).map(Decimal),
    pa.decimal128(30, 10): st.integers(-(10**27), 10**27).map(lambda number: Decimal(number).scaleb(-10)),
    pa.date32(): st.dates(),
    pa.date64(): st.dates(),
    pa.timestamp("ms"): _MICROSECONDS.map(lambda number: number // 1000),
    pa.timestamp("us", "UTC"): _MICROSECONDS,
    pa.timestamp("us", "Europe/Berlin"): _MICROSECONDS,
    pa.timestamp("ns"): st.integers(-(2**62), 2**62),
    pa.timestamp("ns", "UTC"): st.integers(-(2**62), 2**62),
    pa.time32("ms"): st.integers(0, 86_399_999),
    pa.time64("ns"): st.integers(0, 86_399_999_999_999),
    pa.duration("us"): st.integers(-(2**62), 2**62),
}


def kinds() -> st.SearchStrategy[pa.DataType]:
    return st.recursive(
        st.sampled_from(list(_LEAVES)),
        lambda inner: (
            inner.map(pa.list_)
            | st.tuples(st.sampled_from([pa.string(), pa.int32()]), inner).map(lambda pair: pa.map_(*pair))
            | st.lists(inner, min_size=1, max_size=3).map(
                lambda parts: pa.struct([(f"p{i}", part) for i, part in enumerate(parts)])
            )
        ),
        max_leaves=4,
    )


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if kind in _LEAVES:
        return _LEAVES[kind]
    if pa.types.is_map(kind):
        inner = st.none() | values(kind.item_type)
        return st.dictionaries(values(kind.key_type), inner, max_size=3).map(lambda given: list(given.items()))
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({part.name: st.none() | values(part.type) for part in kind.fields})
    return st.lists(st.none() | values(kind.value_type), max_size=3)


@st.composite
def batches(draw: st.DrawFn, max_rows: int = 30) -> pa.RecordBatch:
    """Draws rows of a random topic. Some columns are required."""
    count = draw(st.integers(1, max_rows))
    fields, columns = [], []
    for place, kind in enumerate(draw(st.lists(kinds(), min_size=1, max_size=5))):
        required = draw(st.booleans())
        # Column names of users have dots and dashes.
        fields.append(pa.field(("column", "a.b", "x-y")[place % 3] + str(place), kind, not required))
        given = values(kind) if required else st.none() | values(kind)
        columns.append(pa.array(draw(st.lists(given, min_size=count, max_size=count)), kind))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def with_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows as they are read from Parquet with a dictionary for each column of texts."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([batch]), sink)
    data = sink.getvalue()
    schema = pq.read_metadata(pa.BufferReader(data)).schema
    columns = [schema.column(place) for place in range(len(schema))]
    texts = [column.path for column in columns if column.logical_type.type == "STRING"]
    return pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts).read().combine_chunks().to_batches()[0]


def comparable(value: Any) -> Any:
    """Makes values equal that readers return differently, such as maps as pairs or structs, and NaNs."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, tuple):
        return {"key": comparable(value[0]), "value": comparable(value[1])}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    return value
