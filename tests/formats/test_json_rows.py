from __future__ import annotations

import base64
import json
import math
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats import json_rows as jsontext
from frazil.formats.json_rows import row_texts, rows_to_json

STRINGS = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from('"\\\n\r\t\0\x1f\u2028/')))
LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), STRINGS),
    (pa.binary(), st.binary()),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.null(), st.none()),
]


def nested(depth: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """Generates a type, and values of it."""
    leaf = st.sampled_from(LEAVES)
    if not depth:
        return leaf
    inner = nested(depth - 1)
    lists = inner.map(lambda it: (pa.list_(it[0]), st.lists(_or_null(it[1]), max_size=3)))
    structs = st.tuples(inner, inner).map(
        lambda two: (
            pa.struct([('a"', two[0][0]), ("b", two[1][0])]),
            st.fixed_dictionaries({'a"': _or_null(two[0][1]), "b": _or_null(two[1][1])}),
        )
    )
    maps = inner.map(
        lambda it: (
            pa.map_(pa.string(), it[0]),
            st.lists(st.tuples(STRINGS, _or_null(it[1])), max_size=3, unique_by=lambda pair: pair[0]),
        )
    )
    return st.one_of(leaf, lists, structs, maps)


def _or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


def plain(value: Any, kind: pa.DataType) -> Any:
    """Returns the expected JSON, value by value."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [plain(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind.fields}
    if pa.types.is_map(kind):
        return {key: plain(each, kind.item_type) for key, each in value}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@given(st.data(), nested(2), st.integers(0, 3), st.sampled_from([1, 1, 1, 40]))
def test_values_of_all_shapes(
    data: st.DataObject, shape: tuple[pa.DataType, st.SearchStrategy[Any]], skipped: int, repeated: int
) -> None:
    kind, strategy = shape
    values = data.draw(st.lists(_or_null(strategy), max_size=5)) * repeated
    table = pa.table({'it\'s "x"': pa.array(values, kind), "n": range(len(values))}).slice(skipped)
    expected = [{'it\'s "x"': plain(v, kind), "n": n} for n, v in list(enumerate(values))[skipped:]]
    assert json.loads(rows_to_json(table)) == expected


ID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([2**64 - 1, None], pa.uint64()), [2**64 - 1, None]),
        (pa.array([0.1, 1e20, None], pa.float32()), [0.1, 1e20, None]),
        (pa.array([Decimal("1.20"), Decimal("-0.05")], pa.decimal128(10, 2)), ["1.20", "-0.05"]),
        (pa.array([datetime(2024, 2, 29, 1, 2, 3, 4, UTC)]), ["2024-02-29T01:02:03.000004Z"]),
        (
            pa.array([datetime(2024, 2, 29, 1, tzinfo=UTC)], pa.timestamp("ms", "Europe/Berlin")),
            ["2024-02-29T01:00:00.000Z"],
        ),
        (pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001"]),
        (pa.array([date(2024, 2, 29)]), ["2024-02-29"]),
        (pa.array([time(1, 2, 3, 4)]), ["01:02:03.000004"]),
        (pa.array([timedelta(seconds=1)]), ["0:00:01"]),
        (pa.array([ID.bytes, None], pa.uuid()), [str(ID), None]),
        (pa.array([b"ab", None], pa.binary(2)), ["YWI=", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([[(1, "x")], None], pa.map_(pa.int64(), pa.string())), [[{"key": 1, "value": "x"}], None]),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)), [[1, 2], None, [3, 4]]),
        (pa.array([[1], None, [2, 3]], pa.list_view(pa.int8())), [[1], None, [2, 3]]),
    ],
)
def test_types_of_their_own(array: pa.Array, expected: list[object]) -> None:
    table, shown = pa.table({"it": array}), [{"it": value} for value in expected]
    assert json.loads(rows_to_json(table)) == shown
    assert json.loads(rows_to_json(table.slice(1))) == shown[1:]


def test_no_rows_and_no_columns() -> None:
    assert rows_to_json(pa.table({"a": pa.array([], pa.int64())})) == b"[]"
    with pytest.raises(ValueError, match="two columns of one name: a"):
        rows_to_json(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))


def test_many_rows_are_one_list() -> None:
    rows = json.loads(rows_to_json(pa.table({"n": range(20_000)})))
    assert rows == [{"n": n} for n in range(20_000)]


def test_infinite_times_are_told_as_such() -> None:
    """DuckDB's infinities are the largest and the smallest number; other dates that are too far away stay numbers."""
    most, far = 2**63 - 1, 9_000_000_000_000_000_000
    table = pa.table(
        {
            "time": pa.array([most, -most, far, 0, None], pa.timestamp("us")),
            "zoned": pa.array([most, -most, -far, 0, None], pa.timestamp("ms", "UTC")),
            "day": pa.array([2**31 - 1, 1 - 2**31, 2**31 - 2, 0, None], pa.int32()).cast(pa.date32()),
        }
    )
    assert json.loads(rows_to_json(table)) == [
        {"time": "Infinity", "zoned": "Infinity", "day": "Infinity"},
        {"time": "-Infinity", "zoned": "-Infinity", "day": "-Infinity"},
        {"time": str(far), "zoned": str(-far), "day": str(2**31 - 2)},
        {"time": "1970-01-01T00:00:00.000000", "zoned": "1970-01-01T00:00:00.000Z", "day": "1970-01-01"},
        {"time": None, "zoned": None, "day": None},
    ]


def test_large_rows_become_text_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []
    join = jsontext._joined

    def joining(texts: pa.Array) -> bytes:
        joined.append(len(texts))
        return join(texts)

    monkeypatch.setattr(jsontext, "_BYTES", 5000)
    monkeypatch.setattr(jsontext, "_joined", joining)
    values = ["x" * 2000] * 5 + ["y" * 9000] + ["z"] * 5
    assert json.loads(rows_to_json(pa.table({"value": values}))) == [{"value": each} for each in values]
    assert joined == [2, 2, 1, 1, 5]


@pytest.mark.parametrize("copies", [1, 200])
def test_rows_one_by_one_leave_out_what_is_null(copies: int) -> None:
    rows = [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": None}, {"a": 3, "b": "", "c": None}] * copies
    schema = pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.binary()})
    texts = row_texts(pa.RecordBatch.from_pylist(rows, schema)).to_pylist()
    assert texts == ['{"a":1,"b":"x"}', '{"a":2}', '{"a":3,"b":""}'] * copies
    assert row_texts(pa.RecordBatch.from_pylist([], schema)).to_pylist() == []
