"""The cache computes a value once per schema."""

from __future__ import annotations

import pyarrow as pa

from frazil.formats.schema_cache import SchemaCache

ONE = pa.schema([("a", pa.int64())])
OTHER = pa.schema([("a", pa.int64()), ("b", pa.string())])


def test_each_schema_is_worked_out_once() -> None:
    asked: list[pa.Schema] = []

    def count(schema: pa.Schema) -> int:
        asked.append(schema)
        return len(schema)

    columns = SchemaCache(count)
    assert [columns[schema] for schema in (ONE, OTHER, ONE, pa.schema(list(OTHER)), OTHER)] == [1, 2, 1, 2, 2]
    assert asked == [ONE, OTHER]


def test_metadata_counts() -> None:
    names = SchemaCache(lambda schema: schema.metadata)
    assert names[ONE] is None
    assert names[ONE.with_metadata({"a": "b"})] == {b"a": b"b"}
    assert names[ONE] is None
