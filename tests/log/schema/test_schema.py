from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.errors import ArrowConversion, SchemaMismatch
from frazil.log.schema.schema import SchemaAdapter, SchemaVersion, conform, evolve, from_text, plain, to_text
from frazil.log.topics.schemas import TopicSchemas
from frazil.store.local import LocalStore

BASE = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("price", pa.float32())])


def test_a_new_nullable_column_is_added_at_the_end() -> None:
    wanted = pa.schema([pa.field("note", pa.string()), *BASE])
    assert evolve(BASE, wanted, "t").names == ["id", "price", "note"]


@pytest.mark.parametrize(
    ("old", "new"), [(pa.int32(), pa.int64()), (pa.float32(), pa.float64()), (pa.int8(), pa.int16())]
)
def test_numbers_widen_and_never_narrow(old: pa.DataType, new: pa.DataType) -> None:
    narrow, wide = pa.schema([("n", old)]), pa.schema([("n", new)])
    assert evolve(narrow, wide, "t").field("n").type == new
    assert evolve(wide, narrow, "t") is wide


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (pa.field("id", pa.string()), "'id' is int32, not string"),
        (pa.field("id", pa.float64()), "'id' is int32, not double"),
        (pa.field("id", pa.int32(), nullable=True), "required but may be null"),
        (pa.field("extra", pa.int32(), nullable=False), "new column 'extra' is not nullable"),
    ],
)
def test_anything_else_is_refused_with_the_column(field: pa.Field, complaint: str) -> None:
    wanted = pa.schema([field, *(f for f in BASE if f.name != field.name)])
    with pytest.raises(SchemaMismatch, match=complaint):
        evolve(BASE, wanted, "t")


def test_a_required_column_may_not_be_missing_and_a_nullable_one_may() -> None:
    with pytest.raises(SchemaMismatch, match="'id' is required but missing"):
        evolve(BASE, pa.schema([("price", pa.float32())]), "t")
    assert evolve(BASE, pa.schema([pa.field("id", pa.int32(), nullable=False)]), "t") is BASE


def test_nested_types_grow_the_same_way() -> None:
    old = pa.schema([("s", pa.struct([("a", pa.int32())])), ("l", pa.list_(pa.struct([("x", pa.float32())])))])
    new = pa.schema(
        [
            ("s", pa.struct([("b", pa.string()), ("a", pa.int64())])),
            ("l", pa.list_(pa.struct([("x", pa.float64()), ("y", pa.bool_())]))),
        ]
    )
    grown = evolve(old, new, "t")
    batch = pa.RecordBatch.from_pylist([{"s": {"a": 1}, "l": [{"x": 0.5}, None]}, {"s": None, "l": None}], schema=old)
    assert conform(batch, grown).to_pylist() == [
        {"s": {"a": 1, "b": None}, "l": [{"x": 0.5, "y": None}, None]},
        {"s": None, "l": None},
    ]


def test_a_column_of_nulls_takes_the_first_type_that_comes() -> None:
    nothing, text = pa.schema([("a", pa.null())]), pa.schema([("a", pa.string())])
    assert evolve(nothing, text, "t").field("a").type == pa.string()
    assert evolve(text, nothing, "t") is text
    assert conform(pa.record_batch([pa.nulls(2)], schema=nothing), text).to_pylist() == [{"a": None}] * 2


def test_layouts_that_mean_the_same_are_one_type() -> None:
    schema = plain(
        pa.schema([("d", pa.dictionary(pa.int8(), pa.string())), ("v", pa.string_view()), ("b", pa.large_binary())])
    )
    assert schema.types == [pa.string(), pa.string(), pa.binary()]
    batch = pa.record_batch(
        {"d": pa.array(["x", None]).dictionary_encode(), "v": pa.array(["y", "z"], pa.string_view())}
    )
    assert conform(batch, schema).to_pylist() == [{"d": "x", "v": "y", "b": None}, {"d": None, "v": "z", "b": None}]


def test_nulls_in_a_required_column_are_refused() -> None:
    batch = pa.record_batch([pa.array([1, None], pa.int32()), pa.array([1.0, 2.0], pa.float32())], schema=BASE)
    with pytest.raises(SchemaMismatch, match="'id' is required but has 1 nulls"):
        SchemaAdapter(BASE, SchemaVersion(1, BASE)).apply(batch)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (pa.schema([]), "without columns"),
        (pa.schema([("a", pa.int32()), ("a", pa.string())]), "same name: a"),
        (pa.schema([("a", pa.dense_union([pa.field("x", pa.int32())]))]), "Parquet"),
    ],
)
def test_schemas_that_cannot_be_stored_are_refused(schema: pa.Schema, complaint: str) -> None:
    with pytest.raises(SchemaMismatch, match=complaint):
        plain(schema)


def test_text_form_is_lossless() -> None:
    schema = pa.schema(
        [pa.field("t", pa.timestamp("ns", "UTC"), nullable=False), ("m", pa.map_(pa.string(), pa.int8()))]
    )
    assert from_text(to_text(schema)).equals(schema)


def test_two_writers_agree_on_the_versions_of_a_topic(local_store: LocalStore) -> None:
    one, other = TopicSchemas(local_store, "t"), TopicSchemas(local_store, "t")
    assert one.latest() is None
    assert one.admit(BASE).version == other.admit(BASE).version == 1
    one.admit(BASE.append(pa.field("a", pa.string())))
    merged = other.admit(BASE.append(pa.field("b", pa.string())))
    assert merged.version == 3
    assert merged.schema.names == ["id", "price", "a", "b"]
    assert one.latest() == merged
    assert one.get(2).names == ["id", "price", "a"]


def test_a_value_that_its_column_cannot_hold() -> None:
    given = pa.schema([("t", pa.timestamp("s"))])
    fit = SchemaAdapter(given, SchemaVersion(1, plain(given)))
    with pytest.raises(ArrowConversion, match="cannot be made to fit their topic"):
        fit.apply(pa.record_batch([pa.array([2**62], pa.timestamp("s"))], schema=given))
