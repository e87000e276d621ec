"""An Avro schema becomes columns, unless it cannot."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import SchemaUnsupported
from frazil.formats.avro.schema import DEEPEST, MOST_NODES, compile_schema
from frazil.formats.registry.schema import Reference, RegisteredSchema
from frazil.lake.schema.types import convert
from tests.formats.avro.cases import as_python, decode, encode


def kind_of(schema: Any, *references: Any) -> pa.DataType:
    known = tuple(Reference("", RegisteredSchema("AVRO", json.dumps(each))) for each in references)
    return compile_schema(RegisteredSchema("AVRO", json.dumps(schema), known)).kind


def record(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields], **more}


UTC = "UTC"
FIXED = {"type": "fixed", "name": "F", "size": 16}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("null", pa.null()),
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ({"type": "long"}, pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        (FIXED, pa.binary(16)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        ({"type": "array", "items": {"type": "map", "values": "int"}}, pa.list_(pa.map_(pa.string(), pa.int32()))),
        (record("R", ("a", "int")), pa.struct([("a", pa.int32())])),
        (record("R"), pa.struct([])),
        (["null", "int"], pa.int32()),
        (["int"], pa.int32()),
        (["null"], pa.null()),
        (["int", "null", "string"], pa.struct([("int", pa.int32()), ("string", pa.string())])),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, pa.decimal128(4, 0)),
        ({**FIXED, "logicalType": "decimal", "precision": 38, "scale": 38}, pa.decimal128(38, 38)),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({**FIXED, "logicalType": "uuid"}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", UTC)),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", UTC)),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.timestamp("ns", UTC)),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, pa.timestamp("ns")),
        (
            {**FIXED, "size": 12, "logicalType": "duration"},
            pa.struct([("months", pa.uint32()), ("days", pa.uint32()), ("milliseconds", pa.uint32())]),
        ),
        # A logical type that does not fit its type is ignored.
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal"}, pa.binary()),
        ({"type": "string", "logicalType": "timestamp-millis"}, pa.string()),
        ({"type": "int", "logicalType": "timestamp-millis"}, pa.int32()),
        ({"type": "long", "logicalType": 7}, pa.int64()),
        ({**FIXED, "size": 11, "logicalType": "duration"}, pa.binary(11)),
    ],
)
def test_types(schema: Any, kind: pa.DataType) -> None:
    assert kind_of(schema) == kind
    # Tables can hold it, or the logical type is ignored.
    convert(kind, "a")


def test_names_are_found_where_they_belong() -> None:
    inner = record("Inner", ("a", "int"), namespace="other.place")
    enum = {"type": "enum", "name": "here.too.E", "symbols": ["A", "B"], "aliases": ["Old"]}
    schema = record(
        "Outer",
        ("one", inner),
        ("two", "other.place.Inner"),
        ("three", {"type": "array", "items": "other.place.Inner"}),
        ("four", enum),
        ("five", ["null", "here.too.E"]),
        ("six", {"type": "record", "name": "Local", "fields": [{"name": "b", "type": "long", "default": 0}]}),
        ("seven", "Local"),
        ("eight", "ns.Local"),
        namespace="ns",
    )
    struct, local = pa.struct([("a", pa.int32())]), pa.struct([("b", pa.int64())])
    kinds = [struct, struct, pa.list_(struct), pa.string(), pa.string(), local, local, local]
    names = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    assert kind_of(schema) == pa.struct(list(zip(names, kinds, strict=True)))
    value = {
        **{name: {"a": number} for number, name in enumerate(names[:2])},
        "three": [{"a": 3}, {"a": 4}],
        "four": "B",
        "five": "A",
        **{name: {"b": 8} for name in names[5:]},
    }
    assert as_python(decode(schema, encode(schema, [value])).values) == [value]
    # Some writers put a name where a definition could be.
    assert kind_of(record("R", ("a", inner), ("b", {"type": "other.place.Inner"}))).field("b").type == struct


def test_types_of_other_schemas() -> None:
    inner = record("Inner", ("a", "int"), namespace="ns")
    middle = record("Middle", ("inner", "ns.Inner"), namespace="ns")
    outer = record("Outer", ("middle", "Middle"), ("inner", "ns.Inner"), namespace="ns")
    struct = pa.struct([("a", pa.int32())])
    expected = pa.struct([("middle", pa.struct([("inner", struct)])), ("inner", struct)])
    assert kind_of(outer, inner, middle) == expected
    with pytest.raises(SchemaUnsupported, match=r"'ns\.Inner'.*does not define"):
        kind_of(outer, middle)


def test_branches_that_would_have_the_same_name() -> None:
    union = [record("R", namespace="one"), record("R", namespace="two"), {"type": "map", "values": "int"}]
    assert [field.name for field in kind_of(union)] == ["one_R", "two_R", "map"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record("R", ("next", ["null", "R"])), "next is a 'R' within a 'R'"),
        (record("R", ("s", record("S", ("r", {"type": "array", "items": "R"})))), r"s\.r\[\] is a 'R'"),
        (record("R", ("a", "Nothing")), "a is a 'Nothing', which the schema does not define"),
        (record("R", ("a", "int"), ("a", "long")), "two fields of the same name"),
        ([], "union of nothing"),
        (["null", "null"], "null twice"),
        (7, "has no type"),
        ({"type": "record", "name": "R"}, "not a valid Avro schema"),
        ({"type": "fixed", "name": "F", "size": 10**9}, "1000000000 bytes"),
        ({"type": "fixed", "name": "F", "size": 0}, "0 bytes"),
    ],
)
def test_schemas_without_columns(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaUnsupported, match=reason):
        kind_of(schema)


def test_a_short_schema_that_stands_for_very_many_fields() -> None:
    """Each type contains the one before it twice."""
    schema: Any = "int"
    for number in range(40):
        schema = record(f"R{number}", ("a", schema), ("b", f"R{number - 1}" if number else "int"))
    with pytest.raises(SchemaUnsupported, match=f"more than {MOST_NODES} fields"):
        kind_of(schema)


def test_deep_schemas() -> None:
    def nested(levels: int) -> Any:
        schema: Any = "int"
        for _ in range(levels - 1):
            schema = {"type": "array", "items": schema}
        return schema

    value = 7
    for _ in range(DEEPEST - 1):
        value = [value]  # type: ignore[assignment]
    found = decode(nested(DEEPEST), encode(nested(DEEPEST), [value] * 3))
    assert found.values.to_pylist() == [value] * 3
    with pytest.raises(SchemaUnsupported, match=f"more than {DEEPEST} levels"):
        kind_of(nested(DEEPEST + 1))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "int", '{"type": "array"}'])
def test_texts_that_are_no_schema(text: str) -> None:
    with pytest.raises(SchemaUnsupported, match="not a valid Avro schema"):
        compile_schema(RegisteredSchema("AVRO", text))
