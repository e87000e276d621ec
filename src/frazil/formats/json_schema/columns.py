"""The types that a JSON Schema gives to values. What it leaves open has none: that is as it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa

from frazil.errors import SchemaUnsupported
from frazil.formats.joining import joined_type
from frazil.formats.json.single import MAX_FIELDS
from frazil.formats.json_schema.documents import Documents, Place
from frazil.formats.registry_schema import RegisteredSchema

_FORMATS = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
_SCALARS = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
_MOST_STEPS = 5 * MAX_FIELDS
_MOST_LEVELS = 100


@lru_cache(maxsize=1024)
def type_of(schema: RegisteredSchema) -> pa.DataType | None:
    """Of its values; None if it says nothing of them. `SchemaUnsupported` if it is wrong, or too large."""
    documents = Documents(schema)
    return _Reader(documents).kind(documents.root, ())


class _Reader:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._steps = 0

    def kind(self, place: Place, above: tuple[int, ...]) -> pa.DataType | None:
        """`above` are the schemas that this one is in: one that is in itself has no type."""
        schema = place.schema
        if isinstance(schema, bool):
            return None
        if not isinstance(schema, dict):
            raise SchemaUnsupported(f"it has {schema!r} where a schema should be")
        if id(schema) in above:
            return None
        self._count(above)
        inside = (*above, id(schema))
        return _joined([*(self.kind(part, inside) for part in self._alternatives(place)), self._own(place, inside)])

    def _count(self, above: tuple[int, ...]) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS or len(above) > _MOST_LEVELS:
            raise SchemaUnsupported("it is too large, or nested too deep")

    def _alternatives(self, place: Place) -> Iterator[Place]:
        """Other schemas that say what a value is: it fits one of them, or all."""
        schema = place.schema
        if isinstance(reference := schema.get("$ref"), str):
            yield self._documents.follow(reference, place)
        for word in ("allOf", "oneOf", "anyOf"):
            if isinstance(branches := schema.get(word), list):
                yield from (Place(each, place.document) for each in branches if not _is_null(each))

    def _own(self, place: Place, above: tuple[int, ...]) -> pa.DataType | None:
        """What the schema says by itself."""
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
        return _SCALARS.get(*names) if len(names) == 1 else None

    def _object(self, place: Place, above: tuple[int, ...]) -> pa.DataType | None:
        properties = place.schema.get("properties", {})
        if not isinstance(properties, dict):
            raise SchemaUnsupported("its properties are no object")
        if not properties:
            return self._map(place, above)
        found = [(name, self.kind(Place(each, place.document), above)) for name, each in properties.items()]
        fields = [pa.field(name, kind) for name, kind in found if kind is not None]
        return pa.struct(fields) if fields else None

    def _map(self, place: Place, above: tuple[int, ...]) -> pa.DataType | None:
        """An object of which only the values are described."""
        patterns = place.schema.get("patternProperties") or {}
        values = [*patterns.values()] if isinstance(patterns, dict) else []
        if isinstance(rest := place.schema.get("additionalProperties"), dict):
            values.append(rest)
        found = [self.kind(Place(each, place.document), above) for each in values]
        item = None if None in found else _joined(found)
        return None if item is None else pa.map_(pa.string(), item)

    def _array(self, place: Place, above: tuple[int, ...]) -> pa.DataType | None:
        items = place.schema.get("prefixItems", place.schema.get("items"))
        each = items if isinstance(items, list) else [items] if items is not None else []
        found = [self.kind(Place(item, place.document), above) for item in each]
        item = None if None in found else _joined(found)
        return None if item is None else pa.list_(item)


def _joined(found: Iterable[pa.DataType | None]) -> pa.DataType | None:
    """The type that holds values of all; None if there is none. What says nothing does not count."""
    result: pa.DataType | None = None
    for kind in found:
        if kind is None:
            continue
        result = kind if result is None else _number(result, kind) or joined_type(result, kind)
        if result is None:
            return None
    return result


def _number(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    both = {first, second}
    return pa.float64() if both == {pa.int64(), pa.float64()} else None


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and (
        schema.get("type") == "null" or ("const" in schema and schema["const"] is None)
    )


def _type_names(schema: dict[str, Any]) -> set[str]:
    """The names of the types that a value may have, `null` aside."""
    said = schema.get("type")
    if said is not None:
        names = set(map(str, said)) if isinstance(said, list) else {str(said)}
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
