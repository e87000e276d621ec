"""Compiles Avro schemas to the nodes that read them.

| Avro | Arrow |
|---|---|
| null, boolean, int, long, float, double, bytes, string | the same |
| fixed | fixed-size binary |
| enum | string: the symbol |
| record, array, map | struct, list, map |
| a union of null and another, or of one | that other |
| a union of several | a struct with a field for each but null, named by its type; all are null but the one there is |
| decimal (bytes, fixed) | decimal128, if it has at most 38 digits; else what it is without its meaning |
| uuid (string, fixed) | string |
| date; time-millis, time-micros | date32; time32[ms], time64[us] |
| timestamp-millis, -micros, -nanos | timestamp in UTC |
| local-timestamp-millis, -micros, -nanos | timestamp without a time zone |
| duration | a struct of months, days and milliseconds |

Other logical types, and those that do not go with their type, are ignored, as Avro wants it. Records are read as they
were written: defaults and aliases, which are for readers with a schema of their own, play no part. Everything may be
null. A type that contains itself has no columns: `SchemaUnsupported`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from frazil.errors import SchemaUnsupported
from frazil.formats.avro.logical import DURATION, MOST_DIGITS, Decimal, durations, uuid_texts
from frazil.formats.avro.nested import Array, Map, Optional, Record, Union
from frazil.formats.avro.nodes import Node
from frazil.formats.avro.scalars import Binary, Boolean, Enumeration, Fixed, Null, Number, Real, Text
from frazil.formats.registry.schema import RegisteredSchema

MOST_NODES = 10_000
"""The most parts of a schema, each counted as often as it is used: a short text can stand for very many."""
DEEPEST = 60
"""The most levels of nesting."""
LARGEST_FIXED = 1024 * 1024
"""The most bytes of a fixed type."""

_INT = -(2**31), 2**31 - 1
_LONG = -(2**63), 2**63 - 1
_DAY_MS = 24 * 60 * 60 * 1000
_NAMED = ("record", "error", "enum", "fixed")
_PRIMITIVE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NUMBERS: dict[tuple[str, str], tuple[pa.DataType, int, int]] = {
    ("int", "date"): (pa.date32(), *_INT),
    ("int", "time-millis"): (pa.time32("ms"), 0, _DAY_MS - 1),
    ("long", "time-micros"): (pa.time64("us"), 0, _DAY_MS * 1000 - 1),
    ("long", "timestamp-millis"): (pa.timestamp("ms", "UTC"), *_LONG),
    ("long", "timestamp-micros"): (pa.timestamp("us", "UTC"), *_LONG),
    ("long", "timestamp-nanos"): (pa.timestamp("ns", "UTC"), *_LONG),
    ("long", "local-timestamp-millis"): (pa.timestamp("ms"), *_LONG),
    ("long", "local-timestamp-micros"): (pa.timestamp("us"), *_LONG),
    ("long", "local-timestamp-nanos"): (pa.timestamp("ns"), *_LONG),
}


def compile_schema(schema: RegisteredSchema) -> Node:
    """Returns the node that reads records of this schema."""
    compiler = _Compiler()
    try:
        for content in _contents(schema):
            compiler.define(content, "")
        return compiler.node(json.loads(schema.text), "", "the value")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SchemaUnsupported(f"the schema is not a valid Avro schema: {error!r}") from error


def _contents(schema: RegisteredSchema) -> Iterator[Any]:
    """Yields the schemas that a schema refers to, and then itself."""
    for reference in schema.references:
        yield from _contents(reference.schema)
    yield json.loads(schema.text)


class _Compiler:
    def __init__(self) -> None:
        self._named: dict[str, tuple[dict[str, Any], str]] = {}
        """The definitions by full name, each with the namespace that holds inside it."""
        self._open: list[str] = []
        """The names of the types that enclose the current part."""
        self._nodes = self._depth = 0

    def define(self, content: Any, namespace: str) -> None:
        """Collects the definitions of all named types."""
        match content:
            case list():
                for branch in content:
                    self.define(branch, namespace)
            case {"type": dict() | list() as inner}:
                self.define(inner, namespace)
            case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
                self.define(inner, namespace)
            case {"type": str(kind)} if kind in _NAMED:
                name = _full_name(content["name"], content.get("namespace", namespace))
                within = name.rpartition(".")[0]
                self._named[name] = content, within
                for field in content.get("fields", ()):
                    self.define(field["type"], within)

    def node(self, content: Any, namespace: str, path: str) -> Node:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise SchemaUnsupported(f"the schema has more than {MOST_NODES} fields")
        if self._depth >= DEEPEST:
            raise SchemaUnsupported(f"the schema is more than {DEEPEST} levels deep")
        self._depth += 1
        try:
            return self._any(content, namespace, path)
        finally:
            self._depth -= 1

    def _any(self, content: Any, namespace: str, path: str) -> Node:
        match content:
            case str() if content in _PRIMITIVE:
                return self._primitive(content, {}, path)
            case str():
                return self._reference(content, namespace, path)
            case list():
                return self._union(content, namespace, path)
            case {"type": dict() | list() as inner}:
                return self.node(inner, namespace, path)
            case {"type": "array"}:
                return Array(path, self.node(content["items"], namespace, f"{path}[]"))
            case {"type": "map"}:
                item = self.node(content["values"], namespace, f"{path}[]")
                return Map(path, Text(f"a key of {path}"), item)
            case {"type": str(kind)} if kind in _NAMED:
                return self._type(_full_name(content["name"], content.get("namespace", namespace)), path)
            case {"type": str(kind)} if kind in _PRIMITIVE:
                return self._primitive(kind, content, path)
            case {"type": str(name)}:
                return self._reference(name, namespace, path)
        raise SchemaUnsupported(f"{path} has no type")

    def _primitive(self, kind: str, content: dict[str, Any], path: str) -> Node:
        logical = content.get("logicalType")
        match kind:
            case "null":
                return Null(path)
            case "boolean":
                return Boolean(path)
            case "int" | "long" if (kind, logical) in _NUMBERS:
                return Number(path, *_NUMBERS[kind, str(logical)])
            case "int":
                return Number(path, pa.int32(), *_INT)
            case "long":
                return Number(path, pa.int64(), *_LONG)
            case "float":
                return Real(path, pa.float32())
            case "double":
                return Real(path, pa.float64())
            case "bytes":
                return _decimal(content, Binary(path), path)
        return Text(path)

    def _reference(self, name: str, namespace: str, path: str) -> Node:
        full = _full_name(name, namespace)
        # A name without dots may also be one without a namespace.
        return self._type(full if full in self._named else name, path)

    def _type(self, name: str, path: str) -> Node:
        if name not in self._named:
            raise SchemaUnsupported(f"{path} is a {name!r}, which the schema does not define")
        if name in self._open:
            raise SchemaUnsupported(
                f"{path} is a {name!r} within a {name!r}: a type that contains itself has no columns"
            )
        content, within = self._named[name]
        self._open.append(name)
        try:
            return self._definition(content, within, path)
        finally:
            self._open.pop()

    def _definition(self, content: dict[str, Any], within: str, path: str) -> Node:
        match content["type"]:
            case "enum":
                return Enumeration(path, [str(symbol) for symbol in content["symbols"]])
            case "fixed":
                return _fixed(content, path)
        names = [str(field["name"]) for field in content["fields"]]
        if len(set(names)) < len(names):
            raise SchemaUnsupported(f"{path} has two fields of the same name")
        before = "" if path == "the value" else f"{path}."
        return Record(
            path,
            [
                (name, self.node(field["type"], within, f"{before}{name}"))
                for name, field in zip(names, content["fields"], strict=True)
            ],
        )

    def _union(self, content: list[Any], namespace: str, path: str) -> Node:
        nulls = [place for place, branch in enumerate(content) if _type_name(branch) == "null"]
        others = [branch for place, branch in enumerate(content) if place not in nulls]
        if not content or len(nulls) > 1:
            raise SchemaUnsupported(f"{path} is a union of nothing, or of null twice")
        if len(others) <= 1:
            inner = self.node(others[0], namespace, path) if others else Null(path)
            return Optional(path, inner, len(content), nulls[0] if nulls else None)
        labels = iter(_labels([_full_name(_type_name(branch), namespace) for branch in others]))
        branches = []
        for place, branch in enumerate(content):
            label = None if place in nulls else next(labels)
            branches.append(None if label is None else (label, self.node(branch, namespace, f"{path}.{label}")))
        return Union(path, branches)


def _labels(names: list[str]) -> list[str]:
    """Returns the field names for the branches of a union: the name of the type alone, or with its namespace where
    the name is ambiguous."""
    short = [name.rpartition(".")[2] for name in names]
    often = Counter(label.lower() for label in short)
    return [
        label if often[label.lower()] == 1 else name.replace(".", "_")
        for label, name in zip(short, names, strict=True)
    ]


def _type_name(branch: Any) -> str:
    match branch:
        case str():
            return branch
        case {"type": str(kind)} if kind in _NAMED:
            return _full_name(branch["name"], branch.get("namespace", ""))
        case {"type": inner}:
            return _type_name(inner)
    raise SchemaUnsupported("a union has a branch without a type")


def _full_name(name: str, namespace: str | None) -> str:
    if "." in name or not namespace or name in _PRIMITIVE:
        return name.lstrip(".")
    return f"{namespace}.{name}"


def _fixed(content: dict[str, Any], path: str) -> Node:
    size = int(content["size"])
    if not 0 < size <= LARGEST_FIXED:
        raise SchemaUnsupported(f"{path} has {size} bytes, not 1 to {LARGEST_FIXED}")
    match content.get("logicalType"):
        case "uuid" if size == 16:
            return Fixed(path, size, pa.string(), uuid_texts)
        case "duration" if size == 12:
            return Fixed(path, size, DURATION, durations)
    return _decimal(content, Fixed(path, size), path)


def _decimal(content: dict[str, Any], plain: Node, path: str) -> Node:
    precision, scale = content.get("precision"), content.get("scale", 0)
    if content.get("logicalType") != "decimal" or not isinstance(precision, int) or not isinstance(scale, int):
        return plain
    if not (0 < precision <= MOST_DIGITS and 0 <= scale <= precision):
        return plain
    return Decimal(path, plain, precision, scale)
