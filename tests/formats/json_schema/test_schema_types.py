"""JSON Schemas give types to their values."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import SchemaUnsupported
from frazil.formats.json_schema.schema_types import type_of
from frazil.formats.registry.schema import Reference, RegisteredSchema

STRING, LONG, DOUBLE = pa.string(), pa.int64(), pa.float64()
TIME = pa.timestamp("us", "UTC")


def registered(content: Any, **references: Any) -> RegisteredSchema:
    others = tuple(Reference(name.replace("_", "."), registered(each)) for name, each in references.items())
    return RegisteredSchema("JSON", json.dumps(content), others)


def record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


TREE = {"$ref": "#/definitions/tree", "definitions": {"tree": record(name={"type": "string"}, next={"$ref": "#"})}}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, STRING),
        ({"type": "string", "format": "date-time"}, TIME),
        ({"type": "string", "format": "date"}, pa.date32()),
        ({"type": "string", "format": "uuid"}, STRING),
        ({"type": "string", "contentEncoding": "base64"}, pa.binary()),
        ({"type": "integer"}, LONG),
        ({"type": "number"}, DOUBLE),
        ({"type": ["integer", "number", "null"]}, DOUBLE),
        ({"type": "boolean"}, pa.bool_()),
        ({"type": ["null", "string"]}, STRING),
        ({"type": ["integer", "string"]}, None),
        ({"type": "null"}, None),
        ({}, None),
        (True, None),
        ({"enum": ["a", "b", None]}, STRING),
        ({"enum": [1, 2.5]}, DOUBLE),
        ({"enum": [1, "x"]}, None),
        ({"const": True}, pa.bool_()),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, LONG),
        ({"anyOf": [{"const": None}, {"type": "integer"}, {"type": "number"}]}, DOUBLE),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, None),
        ({"anyOf": [{"type": "integer"}, {}]}, None),
        ({"anyOf": [{"type": "integer"}, {"type": ["string", "integer"]}]}, None),
        ({"anyOf": [{"type": "integer"}, False, {"type": ["null"]}, {"enum": [None]}]}, LONG),
        ({"type": "integer", "anyOf": [{"minimum": 3}, {"maximum": -3}]}, LONG),
        ({"allOf": [{"type": "integer"}, {}]}, LONG),
        (
            {"oneOf": [record(kind={"const": "i"}, v={"type": "integer"}), record(kind={}, v={"type": "string"})]},
            None,
        ),
        (
            {"oneOf": [record(k={"const": "i"}, v={"type": "integer"}), record(k={"const": "s"}, v=record())]},
            struct(k=STRING),
        ),
        (
            {
                "anyOf": [
                    record(a=record(x={"type": "integer"})),
                    record(a=record(x={"type": "string"}, y={"const": 1})),
                ]
            },
            struct(a=struct(y=LONG)),
        ),
        ({"allOf": [record(a={"type": "string"}), record(a={"type": "integer"}, b={"const": 1})]}, struct(b=LONG)),
        ({"oneOf": [record(a={"type": "string"}), record(b={"type": "integer"})]}, struct(a=STRING, b=LONG)),
        (
            {"allOf": [record(a={"type": "string"}), {"properties": {"b": {"type": "integer"}}}]},
            struct(a=STRING, b=LONG),
        ),
        (record(a={"type": "string"}, any={}), struct(a=STRING)),
        (record(any={}), None),
        (record(a=record(b={"type": "integer"})), struct(a=struct(b=LONG))),
        ({"type": "object"}, None),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, pa.map_(STRING, LONG)),
        ({"additionalProperties": {"type": "array", "items": {"type": "string"}}}, pa.map_(STRING, pa.list_(STRING))),
        ({"type": "object", "additionalProperties": {}}, None),
        ({"type": "object", "patternProperties": {"^x": {"type": "number"}}}, pa.map_(STRING, DOUBLE)),
        ({"type": "array", "items": {"type": "string"}}, pa.list_(STRING)),
        ({"type": "array"}, None),
        ({"type": "array", "items": {}}, None),
        ({"type": "array", "items": [{"type": "integer"}, {"type": "number"}]}, pa.list_(DOUBLE)),
        ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, None),
        ({"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, None),
        ({"prefixItems": [{"type": "integer"}], "items": {"type": "number"}}, pa.list_(DOUBLE)),
        ({"prefixItems": [{"type": "integer"}], "items": False}, pa.list_(LONG)),
        ({"items": [{"type": "integer"}], "additionalItems": {"type": "string"}}, None),
        (record(a={"type": "integer"}, A={"type": "integer"}), struct(a=LONG)),
        (
            record(a=record(b={"type": "integer"}), **{"a.b": {"const": 1}, "": {"const": 1}}),
            struct(a=struct(b=LONG)),
        ),
        (record(**{"a\0": {"const": 1}, "b": {"const": 1}}), struct(b=LONG)),
        ({"$ref": "#/definitions/a", "definitions": {"a": {"type": "integer"}}}, LONG),
        ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "integer"}}}, LONG),
        (record(a={"$ref": "#/properties/b"}, b={"type": "integer"}), struct(a=LONG, b=LONG)),
        (TREE, struct(name=STRING)),
    ],
)
def test_types(schema: Any, kind: pa.DataType | None) -> None:
    assert type_of(registered(schema)) == kind


def test_other_documents() -> None:
    address = {
        "$id": "http://example.org/address.json",
        **record(city={"type": "string"}, code={"$ref": "#/$defs/c"}),
    }
    address["$defs"] = {"c": {"type": "integer"}}
    person = {
        "$id": "http://example.org/person.json",
        **record(
            home={"$ref": "address.json"},
            work={"$ref": "http://example.org/address.json"},
            code={"$ref": "address.json#/$defs/c"},
            boss={"$ref": "person.json"},
        ),
    }
    place = struct(city=STRING, code=LONG)
    assert type_of(registered(person, address_json=address)) == struct(home=place, work=place, code=LONG)


DOUBLING = {f"d{n}": record(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"}) for n in range(40)}
DOUBLING["d40"] = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (RegisteredSchema("AVRO", '"string"'), "it is AVRO, not JSON Schema"),
        (RegisteredSchema("JSON", "{"), "it is not JSON"),
        (RegisteredSchema("JSON", "[" * 100_000), "it is not JSON"),
        (registered(7), "7 where a schema should be"),
        (registered({"$ref": "other.json"}), "'other.json', which is none of its references"),
        (registered({"$ref": "#/definitions/none"}), "'#/definitions/none', which is not there"),
        (registered({"type": "object", "properties": []}), "properties are no object"),
        (registered({"properties": {"a": "string"}}), "'string' where a schema should be"),
        (registered({"$defs": DOUBLING, "$ref": "#/$defs/d0"}), "too large"),
    ],
)
def test_schemas_that_cannot_be_used(schema: RegisteredSchema, why: str) -> None:
    with pytest.raises(SchemaUnsupported, match=why):
        type_of(schema)
