"""Derives the Arrow types of values from a JSON Schema. Values that the schema leaves open are inferred from the
data.

While a schema is read, open values have the type `OPEN`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from frazil.errors import SchemaUnsupported
from frazil.formats.json.field_names import nameable
from frazil.formats.json.type_inference import known_type
from frazil.formats.json_schema.combining import OPEN, type_of_all, type_of_any
from frazil.formats.json_schema.documents import Documents, Subschema
from frazil.formats.registry.schema import RegisteredSchema

_FORMATS = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
_SCALARS = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
_MOST_STEPS = 10_000
_MOST_LEVELS = 100


@lru_cache(maxsize=1024)
def type_of(schema: RegisteredSchema) -> pa.DataType | None:
    """Returns the type of a schema's values; None if it says nothing about them. Raises `SchemaUnsupported` if the
    schema is invalid or too large.

    Fields that no table can have are left open, so that only records that have them are faulty.
    """
    documents = Documents(schema)
    return known_type(nameable(_TypeReader(documents).kind(documents.root, ())))


class _TypeReader:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._steps = 0

    def kind(self, place: Subschema, above: tuple[int, ...]) -> pa.DataType:
        """Returns the type of a subschema. `above` has the ids of the schemas around it: a schema inside itself has
        no type."""
        schema = place.schema
        if isinstance(schema, bool):
            return OPEN
        if not isinstance(schema, dict):
            raise SchemaUnsupported(f"it has {schema!r} where a schema should be")
        if id(schema) in above:
            return OPEN
        self._count(above)
        inside = (*above, id(schema))
        return type_of_all([*self._others(place, inside), self._own(place, inside)])

    def _count(self, above: tuple[int, ...]) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS or len(above) > _MOST_LEVELS:
            raise SchemaUnsupported("it is too large, or nested too deep")

    def _others(self, place: Subschema, above: tuple[int, ...]) -> Iterator[pa.DataType]:
        """Yields the types from other schemas that a value has to fit as well."""
        schema = place.schema
        if isinstance(reference := schema.get("$ref"), str):
            yield self.kind(self._documents.follow(reference, place), above)
        if isinstance(branches := schema.get("allOf"), list):
            yield from self._kinds(branches, place, above)
        for word in ("oneOf", "anyOf"):
            if isinstance(branches := schema.get(word), list):
                yield type_of_any(self._kinds(branches, place, above))

    def _kinds(self, schemas: Iterable[Any], place: Subschema, above: tuple[int, ...]) -> list[pa.DataType]:
        """Returns the types of the schemas that allow other values than null."""
        return [self.kind(Subschema(each, place.document), above) for each in schemas if not _is_null(each)]

    def _own(self, place: Subschema, above: tuple[int, ...]) -> pa.DataType:
        """Returns the type that the schema itself gives, without those that it refers to."""
        schema = place.schema
        names = _type_names(schema)
        if names == {"object"}:
            return self._object(place, above)
        if names == {"array"}:
            return self._array(place, above)
        if names == {"string"}:
            if schema.get("contentEncoding") == "base64":
                return pa.binary()
            return _FORMATS.get(str(schema.get("format")), pa.string())
        if names == {"integer", "number"}:
            return pa.float64()
        return _SCALARS.get(names.pop(), OPEN) if len(names) == 1 else OPEN

    def _object(self, place: Subschema, above: tuple[int, ...]) -> pa.DataType:
        properties = place.schema.get("properties", {})
        if not isinstance(properties, dict):
            raise SchemaUnsupported("its properties are no object")
        if not properties:
            return self._map(place, above)
        return pa.struct(
            [(name, self.kind(Subschema(each, place.document), above)) for name, each in properties.items()]
        )

    def _map(self, place: Subschema, above: tuple[int, ...]) -> pa.DataType:
        """Returns the type of an object for which only the values are described."""
        patterns = place.schema.get("patternProperties") or {}
        values = [*patterns.values()] if isinstance(patterns, dict) else []
        if isinstance(rest := place.schema.get("additionalProperties"), dict):
            values.append(rest)
        item = type_of_any(self._kinds(values, place, above))
        return OPEN if types.is_null(item) else pa.map_(pa.string(), item)

    def _array(self, place: Subschema, above: tuple[int, ...]) -> pa.DataType:
        words = ("prefixItems", "items", "additionalItems")
        given = [place.schema[word] for word in words if word in place.schema]
        each = [item for items in given for item in (items if isinstance(items, list) else [items])]
        return pa.list_(type_of_any(self._kinds(each, place, above)))


def _is_null(schema: Any) -> bool:
    """Returns whether only null fits the schema."""
    if not isinstance(schema, dict):
        return schema is False
    if "const" in schema or "enum" in schema:
        return [schema["const"]] == [None] if "const" in schema else schema["enum"] == [None]
    return schema.get("type") in ("null", ["null"])


def _type_names(schema: dict[str, Any]) -> set[str]:
    """Returns the names of the types that a value may have, without `null`."""
    declared = schema.get("type")
    if declared is not None:
        names = set(map(str, declared)) if isinstance(declared, list) else {str(declared)}
    elif "const" in schema or isinstance(schema.get("enum"), list):
        values = [schema["const"]] if "const" in schema else schema["enum"]
        names = {_name_of(value) for value in values}
    elif "properties" in schema or "additionalProperties" in schema:
        names = {"object"}
    elif "items" in schema or "prefixItems" in schema:
        names = {"array"}
    else:
        names = set()
    return names - {"null"}


def _name_of(value: Any) -> str:
    kinds: dict[type, str] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return kinds.get(type(value), "null")
