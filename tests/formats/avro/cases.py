"""Generates random Avro schemas, values without logical types, and what must be decoded from them."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import count, pairwise
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from frazil.formats.avro.decoding import DecodedRecords, decode_records
from frazil.formats.avro.schema import compile_schema
from frazil.formats.registry.schema import RegisteredSchema
from frazil.formats.registry.wire import extents

Values = st.SearchStrategy[Any]


@dataclass(frozen=True)
class Case:
    schema: Any
    values: Values
    expected: Callable[[Any], Any]
    """The value as Arrow returns it, with times as numbers."""
    label: str
    """The name of the type within a union."""


def plain(schema: Any, values: Values, expected: Callable[[Any], Any] = lambda value: value) -> Case:
    kind = schema if isinstance(schema, str) else schema["type"]
    label = schema["name"] if kind in ("fixed", "enum", "record") else kind
    return Case(schema, values, expected, label)


def logical(kind: str, name: str, values: Values, expected: Callable[[Any], Any] = lambda value: value) -> Case:
    return plain({"type": kind, "logicalType": name}, values, expected)


_INT = st.integers(-(2**31), 2**31 - 1)
_LONG = st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200)
_DAY = 24 * 60 * 60 * 1000
_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_SHORT = 4


def _names() -> Callable[[str], str]:
    numbers = count()
    return lambda prefix: f"{prefix}{next(numbers)}"


@st.composite
def leaves(draw: st.DrawFn, name: Callable[[str], str]) -> Case:
    pick = draw(st.integers(0, 22))
    match pick:
        case 0:
            return plain("null", st.none())
        case 1:
            return plain("boolean", st.booleans())
        case 2:
            return plain("int", _INT)
        case 3 | 4:
            return plain("long", _LONG)
        case 5:
            return plain("float", st.floats(width=32, allow_nan=False))
        case 6:
            return plain("double", st.floats(allow_nan=False))
        case 7:
            return plain("bytes", st.binary(max_size=9))
        case 8 | 9 | 10:
            return plain("string", _TEXT)
        case 11:
            size = draw(st.integers(1, 20))
            return plain({"type": "fixed", "name": name("F"), "size": size}, st.binary(min_size=size, max_size=size))
        case 12:
            symbols = [f"S{number}" for number in range(draw(st.integers(1, 200)))]
            return plain({"type": "enum", "name": name("E"), "symbols": symbols}, st.sampled_from(symbols))
        case 13:
            return logical("int", "date", _INT)
        case 14:
            return logical("int", "time-millis", st.integers(0, _DAY - 1))
        case 15:
            return logical("long", "time-micros", st.integers(0, _DAY * 1000 - 1))
        case 16:
            unit = draw(st.sampled_from(["millis", "micros", "nanos"]))
            return logical("long", draw(st.sampled_from(["", "local-"])) + f"timestamp-{unit}", _LONG)
        case 17:
            return logical("string", "uuid", st.uuids().map(str))
        case 18:
            schema = {"type": "fixed", "name": name("U"), "size": 16, "logicalType": "uuid"}
            some = st.binary(min_size=16, max_size=16)
            return plain(schema, some, lambda value: str(uuid.UUID(bytes=value)))
        case 19:
            schema = {"type": "fixed", "name": name("D"), "size": 12, "logicalType": "duration"}
            return plain(schema, st.binary(min_size=12, max_size=12), _duration)
        case 20:
            return logical("bytes", "no-such-meaning", st.binary(max_size=3))
    return draw(decimals(name, fixed=pick == 21))


@st.composite
def decimals(draw: st.DrawFn, name: Callable[[str], str], fixed: bool) -> Case:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    meaning = {"logicalType": "decimal", "precision": precision, "scale": scale}
    numbers = st.integers(-(10**precision) + 1, 10**precision - 1)
    least = ((10**precision).bit_length() + 1) // 8 + 1
    extra = st.integers(0, 20)

    def expected(value: bytes) -> Decimal:
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, Context(prec=40))

    if fixed:
        size = least + draw(extra)
        written = numbers.map(lambda number: number.to_bytes(size, "big", signed=True))
        return plain({"type": "fixed", "name": name("N"), "size": size, **meaning}, written, expected)

    def shortest(number: int, more: int) -> bytes:
        needed = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return number.to_bytes(needed + more, "big", signed=True)

    return plain({"type": "bytes", **meaning}, st.builds(shortest, numbers, extra), expected)


def _duration(value: bytes) -> dict[str, int]:
    parts = np.frombuffer(value, "<u4").tolist()
    return dict(zip(("months", "days", "milliseconds"), parts, strict=True))


@st.composite
def cases(draw: st.DrawFn, name: Callable[[str], str] | None = None, depth: int = 3) -> Case:
    name = name or _names()
    kind = draw(st.sampled_from(["leaf", "record", "array", "map", "optional", "union"])) if depth else "leaf"
    match kind:
        case "record":
            return draw(records(name, depth))
        case "array":
            return _array(draw(cases(name, depth - 1)))
        case "map":
            return _map(draw(cases(name, depth - 1)))
        case "optional":
            return _optional(draw(cases(name, depth - 1)), draw(st.booleans()))
        case "union":
            return draw(unions(name, depth))
    return draw(leaves(name))


@st.composite
def records(draw: st.DrawFn, name: Callable[[str], str] | None = None, depth: int = 3) -> Case:
    name = name or _names()
    fields = [(f"f{number}", draw(cases(name, depth - 1))) for number in range(draw(st.integers(0, 5)))]
    own = name("R")
    return Case(
        {"type": "record", "name": own, "fields": [{"name": key, "type": case.schema} for key, case in fields]},
        st.fixed_dictionaries({key: case.values for key, case in fields}),
        lambda value: {key: case.expected(value[key]) for key, case in fields},
        own,
    )


def _array(item: Case) -> Case:
    return Case(
        {"type": "array", "items": item.schema},
        st.lists(item.values, max_size=_SHORT),
        lambda value: [item.expected(each) for each in value],
        "array",
    )


def _map(item: Case) -> Case:
    return Case(
        {"type": "map", "values": item.schema},
        st.dictionaries(_TEXT, item.values, max_size=_SHORT),
        lambda value: [(key, item.expected(each)) for key, each in value.items()],
        "map",
    )


def _optional(inner: Case, null_first: bool) -> Case:
    if inner.label in ("null", "union"):
        return inner
    return Case(
        ["null", inner.schema] if null_first else [inner.schema, "null"],
        st.none() | st.tuples(st.just(inner.label), inner.values),
        lambda value: None if value is None else inner.expected(value[1]),
        "union",
    )


@st.composite
def unions(draw: st.DrawFn, name: Callable[[str], str], depth: int) -> Case:
    drawn = [draw(cases(name, depth - 1)) for _ in range(draw(st.integers(2, 4)))]
    branches = {case.label: case for case in drawn if case.label not in ("union", "null")}
    if len(branches) < 2:
        return drawn[0]
    nulls = ["null"] if draw(st.booleans()) else []
    written = [st.tuples(st.just(label), case.values) for label, case in branches.items()]

    def expected(value: Any) -> Any:
        if value is None:
            return None
        label, inner = value
        return {**dict.fromkeys(branches), label: branches[label].expected(inner)}

    return Case(
        [case.schema for case in branches.values()] + nulls,
        st.one_of(*written, *([st.none()] if nulls else [])),
        expected,
        "union",
    )


def encode(schema: Any, values: Sequence[Any]) -> list[bytes]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    written = []
    for value in values:
        target = io.BytesIO()
        fastavro.schemaless_writer(target, parsed, value)
        written.append(target.getvalue())
    return written


def decode(schema: Any, written: Sequence[bytes]) -> DecodedRecords:
    node = compile_schema(RegisteredSchema("AVRO", json.dumps(schema)))
    where = extents(pa.array(written, pa.binary()))
    found = decode_records(node, where.data, where.starts, where.ends)
    assert found.values.type == node.kind
    found.values.validate(full=True)
    return found


def as_python(values: pa.Array) -> list[Any]:
    """Returns the values, with times as numbers, because Python cannot hold all times."""
    kind = values.type
    if pa.types.is_temporal(kind):
        return list(values.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist())
    if pa.types.is_struct(kind):
        columns = [as_python(column) for column in values.flatten()]
        rows = zip(*columns, strict=True) if columns else [()] * len(values)
        names = [field.name for field in kind]
        found: list[Any] = [dict(zip(names, row, strict=True)) for row in rows]
    elif pa.types.is_map(kind) or pa.types.is_list(kind):
        borders = values.offsets.to_pylist()
        first, count = borders[0], borders[-1] - borders[0]
        if pa.types.is_map(kind):
            keys, inner = (as_python(part.slice(first, count)) for part in (values.keys, values.items))
            items: list[Any] = list(zip(keys, inner, strict=True))
        else:
            items = as_python(values.values.slice(first, count))
        found = [items[start - first : end - first] for start, end in pairwise(borders)]
    else:
        return list(values.to_pylist())
    return [each if valid else None for each, valid in zip(found, values.is_valid().to_pylist(), strict=True)]
