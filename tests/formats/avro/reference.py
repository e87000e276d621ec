"""Reads one Avro value, as simply as possible. It knows no logical types; values of unions say which type they
are."""

from __future__ import annotations

import io
import struct
from typing import Any


def read(schema: Any, written: bytes) -> Any:
    """Reads the value. Raises any error if the bytes are not exactly one value."""
    source = io.BytesIO(written)
    value = _value(schema, source)
    if source.read():
        raise ValueError("bytes left over")
    return value


def _value(schema: Any, source: io.BytesIO) -> Any:
    if isinstance(schema, list):
        branch = schema[_long(source)]
        return None if branch == "null" else (_name(branch), _value(branch, source))
    match schema if isinstance(schema, str) else schema["type"]:
        case "null":
            return None
        case "boolean":
            return {b"\0": False, b"\1": True}[source.read(1)]
        case "int" | "long":
            return _long(source)
        case "float":
            return struct.unpack("<f", source.read(4))[0]
        case "double":
            return struct.unpack("<d", source.read(8))[0]
        case "bytes":
            return _exactly(_long(source), source)
        case "string":
            return _exactly(_long(source), source).decode()
        case "fixed":
            return _exactly(schema["size"], source)
        case "enum":
            return schema["symbols"][_long(source)]
        case "record":
            return {field["name"]: _value(field["type"], source) for field in schema["fields"]}
        case "array":
            return _items(source, lambda: _value(schema["items"], source))
        case "map":
            return _Entries(_items(source, lambda: (_value("string", source), _value(schema["values"], source))))
    raise AssertionError(schema)


class _Entries(list[Any]):
    """A map as it was written, perhaps with the same key twice."""

    def items(self) -> list[Any]:
        return self


def _name(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    return str(branch["name"] if branch["type"] in ("record", "fixed", "enum") else branch["type"])


def _items(source: io.BytesIO, item: Any) -> list[Any]:
    found: list[Any] = []
    while count := _long(source):
        if count < 0:
            count = -count
            _long(source)
        found += [item() for _ in range(count)]
    return found


def _exactly(count: int, source: io.BytesIO) -> bytes:
    taken = source.read(count) if count >= 0 else b""
    if len(taken) != count:
        raise ValueError("too short")
    return taken


def _long(source: io.BytesIO) -> int:
    value = shift = 0
    while True:
        (byte,) = source.read(1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
