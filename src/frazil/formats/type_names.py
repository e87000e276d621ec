"""Parses the names of Arrow types as Arrow prints them: `int64`, `timestamp[us, tz=UTC]`, `list<string>`, `struct<a:
int32>`."""

from __future__ import annotations

import re

import pyarrow as pa

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\]|\([^)]*\))?)|(?P<sign>[<>,:]))")
_SPARE = {"bigint": "int64", "int": "int32", "long": "int64", "text": "string", "boolean": "bool"}


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self._at)
        return match.group().strip() if match else ""

    def _next(self) -> str:
        match = _TOKEN.match(self._text, self._at)
        if not match:
            raise ValueError(f"something is wrong at {self._text[self._at :].strip() or 'its end'!r}")
        self._at = match.end()
        return match.group().strip()

    def _expect(self, sign: str) -> None:
        if (found := self._next()) != sign:
            raise ValueError(f"{sign!r} is missing before {found!r}")

    def whole(self) -> tuple[pa.DataType, bool]:
        """Parses the whole text; returns the type and whether it may be null."""
        result = self._type(), self._nullable()
        if rest := self._text[self._at :].strip():
            raise ValueError(f"{rest!r} is too much")
        return result

    def _nullable(self) -> bool:
        if self._peek() == "not":
            self._next()
            self._expect("null")
            return False
        return True

    def _type(self) -> pa.DataType:
        name = self._next()
        if name in ("list", "large_list", "map", "struct") and self._peek() == "<":
            self._next()
            fields = self._fields(named=name == "struct")
            if name == "struct":
                return pa.struct(fields)
            if name == "map" and len(fields) == 2:
                return pa.map_(fields[0].type, fields[1])
            if name != "map" and len(fields) == 1:
                return pa.list_(pa.field("item", fields[0].type, fields[0].nullable))
            raise ValueError(f"{name} does not take {len(fields)} types")
        return _simple(name)

    def _fields(self, *, named: bool) -> list[pa.Field]:
        fields = []
        while True:
            start = self._at
            name = self._next()
            if self._peek() == ":":
                self._next()
            elif named:
                raise ValueError(f"':' is missing after {name!r}")
            else:
                self._at, name = start, "item"
            fields.append(pa.field(name, self._type(), self._nullable()))
            if (sign := self._next()) == ">":
                return fields
            if sign != ",":
                raise ValueError(f"',' is missing before {sign!r}")


def _simple(name: str) -> pa.DataType:
    if match := re.fullmatch(r"timestamp\[(\w+), *(?:tz=)?([^\]]+)\]", name):
        return pa.timestamp(match[1], match[2])
    if match := re.fullmatch(r"decimal(?:128)?\((\d+), *(-?\d+)\)", name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := re.fullmatch(r"fixed_size_binary\[(\d+)\]", name):
        return pa.binary(int(match[1]))
    try:
        return pa.type_for_alias(_SPARE.get(name, name))
    except ValueError:
        raise ValueError(f"{name!r} is not a type") from None


def parse_field(name: str, text: str) -> pa.Field:
    """Parses the type of a column and returns the column. Raises `ValueError` that says what is wrong with the
    text."""
    kind, nullable = _Parser(text).whole()
    return pa.field(name, kind, nullable)
