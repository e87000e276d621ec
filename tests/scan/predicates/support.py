"""Makes random rows and predicates, and evaluates predicates in plain Python."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import strategies as st

from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    Contains,
    In,
    IsNull,
    MapValue,
    Matches,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
)

_TEXT = ["", "a", "ab", "abc", "b'", 'B"', "ä", "Äb", "\U0001f9ca", "a\nb", "%_", "\uffff"]
_FLOATS = [0.0, -0.0, 1.5, -2.0, 0.1, math.nan, math.inf, -math.inf]
_WHOLE = [-3, -2, -1, 0, 1, 2, 3]
_MOMENTS = [
    datetime.fromisoformat(text)
    for text in ("1969-12-31T23:59:59.999999", "1970-01-01T00:00", "2024-02-29T12:30:00.000001", "2024-03-01T00:00")
]
_TAGS = pa.map_(pa.string(), pa.string())
_TAG_VALUES: list[Any] = [[], [("k", "a")], [("k", None), ("ä", "ab")], [("ä", "b'")], [("k", "Äb"), ("", "a")]]

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.int64(), [*_WHOLE, 2**63 - 1, -(2**63)]),
    "small": (pa.int32(), _WHOLE),
    "ratio": (pa.float64(), _FLOATS),
    "share": (pa.float32(), _FLOATS),
    "amount": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-2.00"), Decimal("0.01")]),
    "text": (pa.string(), _TEXT),
    "service": (pa.dictionary(pa.int32(), pa.string()), _TEXT),
    "flag": (pa.bool_(), [False, True]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\xff", b"a"]),
    "digest": (pa.binary(2), [b"\x00\x00", b"ab", b"\xff\xff"]),
    "id": (pa.uuid(), [bytes(16), UUID(int=7).bytes, b"\xff" * 16]),
    "day": (pa.date32(), [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)]),
    "clock": (pa.time64("us"), [time(0), time(12, 30, 0, 1), time(23, 59)]),
    "moment": (pa.timestamp("us", "UTC"), [each.replace(tzinfo=UTC) for each in _MOMENTS]),
    "plain": (pa.timestamp("us"), _MOMENTS),
    "a.b": (pa.int64(), _WHOLE),
    "tags": (_TAGS, _TAG_VALUES),
    "codes": (pa.map_(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.string())), _TAG_VALUES),
    "part": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, {"x": None, "y": "Äb"}, {"x": -2, "y": None}, {"x": 3, "y": ""}],
    ),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])
_SCALARS = [name for name in KINDS if name not in ("tags", "codes", "part")]
_OTHER_VALUES: dict[str, list[Any]] = {
    "number": [Decimal("0.5"), Decimal("-1.5"), Decimal("2.0"), *_FLOATS, 10**30, Decimal("1E+9999"), "1.5", "2"],
    "small": [2**40, Decimal("-0.5"), 2.5],
    "ratio": [0, 2, -2, Decimal("0.1"), "1.5"],
    "share": [0, 2, -2, Decimal("0.1"), "1.5", 1e300],
    "amount": [Decimal("1.505"), Decimal("1.5"), Decimal("-2.001"), 1.5, 2, "0.01", 10**12],
    "day": [datetime.fromisoformat("1970-01-01T12:00"), "1969-12-31", 0, 19_782],
    "clock": ["12:30:00.000001", 0],
    "moment": ["1970-01-01T00:00:00Z", "2024-03-01T01:00:00+01:00", 0, -1],
    "plain": ["1970-01-01T00:00:00", date(2024, 3, 1), 0],
    "flag": ["true", "false"],
    "bytes": ["a", ""],
    "id": [str(UUID(int=7))],
}
"""These values have another type than the column, but can be compared with it."""


def _some_rows() -> list[dict[str, Any]]:
    chance = Random(7)
    return [{name: chance.choice([None, *values, *values]) for name, (_, values) in KINDS.items()} for _ in range(60)]


_ROWS = _some_rows()


def rows(max_size: int = 8) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.sampled_from(_ROWS), min_size=1, max_size=max_size)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column_of(field, rows) for field in SCHEMA], schema=SCHEMA)


def column_of(field: pa.Field, rows: list[dict[str, Any]]) -> pa.Array:
    values = [row[field.name] for row in rows]
    if field.name == "codes":
        plain = pa.array(values, _TAGS)
        encoded = [plain.keys.dictionary_encode(), plain.items.dictionary_encode()]
        return pa.MapArray.from_arrays(plain.offsets, *encoded, type=field.type, mask=plain.is_null())
    if isinstance(field.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(field.type, pa.array(values, field.type.storage_type))
    if pa.types.is_dictionary(field.type):
        return pa.array(values, field.type.value_type).dictionary_encode()
    return pa.array(values, field.type)


@st.composite
def leaves(draw: st.DrawFn, column: str | None = None) -> Predicate:
    name = column or draw(st.sampled_from([*_SCALARS, "tags", "codes", "part.x", "part.y"]))
    term: Term = Column(name)
    values = KINDS[name][1] if name in _SCALARS else _TEXT
    text = name in ("text", "service", "part.y")
    if name in ("tags", "codes"):
        term, text = MapValue(name, draw(st.sampled_from(["k", "ä", "nowhere"]))), True
    if name == "part.x":
        values = _WHOLE
    what = draw(st.sampled_from(["compare", "compare", "in", "null", *(["starts", "contains", "matches"] * text)]))
    match what:
        case "null":
            return IsNull(term)
        case "in":
            return In(term, frozenset(draw(st.lists(st.sampled_from(values), max_size=3))))
        case "starts":
            return StartsWith(term, draw(st.sampled_from(_TEXT)))
        case "contains":
            return Contains(term, draw(st.sampled_from(_TEXT)), draw(st.booleans()))
        case "matches":
            return Matches(term, draw(st.sampled_from(["a", "^a", "b|ä", "a.b", "", "[ab]+"])), draw(st.booleans()))
    value = draw(st.sampled_from([*values, *_OTHER_VALUES.get(name, [])]))
    return Comparison(term, draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="])), value)


def predicates() -> st.SearchStrategy[Predicate]:
    def joined(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        parts = st.lists(inner, min_size=2, max_size=3).map(tuple) | st.just(())
        return parts.map(And) | parts.map(Or) | inner.map(Not)

    return st.recursive(leaves(), joined, max_leaves=5)


def holds(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Evaluates a predicate as SQL does: the result is None where it is unknown."""
    match predicate:
        case Not(child):
            found = holds(child, row)
            return None if found is None else not found
        case And(children):
            return _least([holds(child, row) for child in children])
        case Or(children):
            found = _least([holds(Not(child), row) for child in children])
            return None if found is None else not found
    value = value_of(predicate.term, row)
    if isinstance(predicate, IsNull):
        return value is None
    if value is None:
        return None
    match predicate:
        case Comparison(_, operator, other):
            return _compared(operator, value, same_kind(predicate.term, other))
        case In(_, values):
            return any(_compared("==", value, same_kind(predicate.term, other)) for other in values)
        case StartsWith(_, prefix):
            return bool(value.startswith(prefix))
        case Contains(_, text, ignore_case):
            return text.lower() in value.lower() if ignore_case else text in value
        case Matches(_, pattern, anchored):
            return bool(re.fullmatch(pattern, value) if anchored else re.search(pattern, value))
    raise AssertionError(predicate)


def _least(found: list[bool | None]) -> bool | None:
    return False if False in found else None if None in found else True


def value_of(term: Term, row: Mapping[str, Any]) -> Any:
    if isinstance(term, MapValue):
        return dict(row[term.column] or []).get(term.key)
    if term.name in row:
        value = row[term.name]
        return pa.scalar(value, pa.float32()).as_py() if term.name == "share" else value
    column, _, field = term.name.partition(".")
    return (row[column] or {}).get(field)


def same_kind(term: Term, value: Any) -> Any:
    """Returns the value as Python compares it with those of the column."""
    name = term.name if isinstance(term, Column) else ""
    match name, value:
        case "number", str():
            return Decimal(value)
        case "amount", str():
            return Decimal(value)
        case "ratio" | "share", str() | Decimal() | int():
            number = float(value)
            return pa.scalar(number, pa.float32()).as_py() if name == "share" else number
        case "id", str():
            return UUID(value).bytes
        case "bytes", str():
            return value.encode()
        case "flag", str():
            return value == "true"
        case "day", int():
            return date(1970, 1, 1) + timedelta(days=value)
        case "day", str():
            return date.fromisoformat(value)
        case "clock", str():
            return time.fromisoformat(value)
        case "clock", int():
            return time(0)
        case "moment" | "plain", int():
            zone = UTC if name == "moment" else None
            return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=value)
        case "moment" | "plain", str():
            return datetime.fromisoformat(value)
    return value


def _compared(operator: str, value: Any, other: Any) -> bool:
    if (
        isinstance(value, date)
        and isinstance(other, date)
        and isinstance(value, datetime) != isinstance(other, datetime)
    ):
        value, other = (_at_midnight(each) for each in (value, other))
    match operator:
        case "==":
            return bool(value == other)
        case "!=":
            return bool(value != other)
        case "<":
            return bool(value < other)
        case "<=":
            return bool(value <= other)
        case ">":
            return bool(value > other)
    return bool(value >= other)


def _at_midnight(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, time(0))
