"""JSON without a registry has inferred and settled types, and texts that do not fit them are faults."""

from __future__ import annotations

import json
import pickle
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.config.sections.log import MOST_COLUMNS
from frazil.errors import ConfigError
from frazil.formats.json import JsonDecoder, batch_reader, learner
from frazil.log.schema.columns import MOST_LEVELS
from tests.formats.json.reading import decode, kind, payloads, rows, struct

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
NAMES = st.sampled_from(["a", "b", "c", "a b", "é", "_offset"])
INT64 = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def types_and_values(draw: st.DrawFn, level: int = 0) -> tuple[st.SearchStrategy[Any], pa.DataType]:
    """Generates a type and values of it."""
    simple = [(INT64, pa.int64()), (TEXT, pa.string()), (st.booleans(), pa.bool_())]
    # Each list of doubles has at least one fraction, because numbers without one are integers.
    simple.append((DOUBLES.map(lambda number: number if number % 1 else 0.5), pa.float64()))
    choice = draw(st.integers(0, len(simple) + 1 if level < 3 else len(simple) - 1))
    if choice < len(simple):
        return simple[choice]
    if choice == len(simple):
        values, inner = draw(types_and_values(level + 1))
        return st.lists(values | st.none(), max_size=3), pa.list_(inner)
    fields = draw(st.dictionaries(NAMES, types_and_values(level + 1), min_size=1, max_size=3))
    values = st.fixed_dictionaries({name: values | st.none() for name, (values, _) in fields.items()})
    return values, pa.struct([(name, inner) for name, (_, inner) in fields.items()])


def dumped(value: Any, indent: int | None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=indent is None)


@given(st.data())
def test_what_was_written_is_read(data: st.DataObject) -> None:
    fields = data.draw(st.dictionaries(NAMES, types_and_values(), min_size=1, max_size=3))
    settled = pa.schema([(name, inner) for name, (_, inner) in fields.items()])
    values = st.fixed_dictionaries({name: values | st.none() for name, (values, _) in fields.items()})
    written = data.draw(st.lists(st.none() | values, max_size=5))
    indent = data.draw(st.sampled_from([None, 0, 2]))
    decoded = decode([None if row is None else dumped(row, indent) for row in written], settled)
    assert not decoded.faults
    assert rows(decoded) == {place: row for place, row in enumerate(written) if row is not None}
    for part in decoded.columns:
        assert part.column.type == pa.struct(list(settled))


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (['{"a": 1}', '{"b": "x"}'], struct(a=pa.int64(), b=pa.string())),
        (['{"a": 1}', '{"a": 2.5}'], struct(a=pa.float64())),
        (['{"a": [1, null]}', '{"a": []}', '{"a": [1.5]}'], struct(a=pa.list_(pa.float64()))),
        (['{"a": {"b": 1}}', '{"a": {"c": true}}'], struct(a=struct(b=pa.int64(), c=pa.bool_()))),
        (['{"a": [{"b": 1}, {"c": 2}]}'], struct(a=pa.list_(struct(b=pa.int64(), c=pa.int64())))),
        (['{"a": "2024-01-01"}', '{"a": "2024-01-01T00:00:00Z"}'], struct(a=pa.string())),
        (['{"a": null, "b": {}, "c": [], "d": [null, {}], "e": {"f": null}, "g": 1}'], struct(g=pa.int64())),
        (["{}", '{"a": null}'], struct()),
        (['{"a": 1e2}'], struct(a=pa.float64())),
    ],
)
def test_types_show(texts: list[str], found: pa.DataType) -> None:
    decoded = decode(texts)
    assert not decoded.faults
    assert kind(decoded) == found


def test_columns_that_are_settled_stay_and_others_are_added() -> None:
    known = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("name", pa.large_string()),
            ("at", pa.list_(pa.field("element", pa.struct([("x", pa.float64())]), nullable=False))),
            ("nothing", pa.null()),
        ]
    )
    decoded = decode(['{"id": 1, "at": [{"x": 1, "y": "new"}], "nothing": true, "more": 1.5}', "{}"], known)
    assert kind(decoded) == struct(
        id=pa.int64(),
        name=pa.string(),
        at=pa.list_(struct(x=pa.float64(), y=pa.string())),
        nothing=pa.bool_(),
        more=pa.float64(),
    )
    assert rows(decoded)[0] == {"id": 1, "name": None, "at": [{"x": 1.0, "y": "new"}], "nothing": True, "more": 1.5}
    assert set(rows(decoded)[1].values()) == {None}


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("double", "1", 1.0),
        ("double", "9007199254740993", 9007199254740992.0),
        ("float", "1.5", 1.5),
        ("int32", "-2147483648", -(2**31)),
        ("uint64", "18446744073709551615", 2**64 - 1),
        ("decimal128(20, 0)", "18446744073709551616", "18446744073709551616"),
        ("decimal128(5, 2)", "1.10", "1.10"),
        ("decimal128(5, 2)", '"-1.1"', "-1.10"),
        ("decimal128(5, 2)", "1e2", "100.00"),
        ("timestamp[us, tz=UTC]", '"2024-02-29T12:00:00.5+02:00"', "2024-02-29 10:00:00.500000Z"),
        ("timestamp[us, tz=UTC]", '"2024-02-29T12:00:00.123456789Z"', "2024-02-29 12:00:00.123456Z"),
        ("timestamp[us, tz=UTC]", '"2024-02-29 12:00"', "2024-02-29 12:00:00.000000Z"),
        ("timestamp[us]", '"2024-02-29T12:00:00Z"', "2024-02-29 12:00:00.000000"),
        ("timestamp[s]", '"1969-12-31T23:59:59.9"', "1969-12-31 23:59:59"),
        ("date32", '"2024-02-29"', "2024-02-29"),
        ("time64[us]", '"23:59:59.9999999"', "23:59:59.999999"),
        ("binary", '"AAEC/w=="', b"\x00\x01\x02\xff"),
        ("fixed_size_binary[2]", '"AAE="', b"\x00\x01"),
        ("duration[ms]", "1500", "1500"),
        ("map<string, int64>", '{"b": 1, "": null}', [("b", 1), ("", None)]),
        ("map<string, timestamp[s]>", '{"b": "2024-01-01"}', None),
        ("list<map<string, list<double>>>", '[{"x": [1]}, null]', [[("x", [1.0])], None]),
        ("struct<a: date32>", '{"a": "2024-01-01", "b": 1}', None),
    ],
)
def test_given_types(type_name: str, text: str, value: Any) -> None:
    decoded = decode([f'{{"x": {text}}}', '{"x": null}', "{}"], given={"x": type_name})
    assert not decoded.faults
    (part,) = decoded.columns
    column = part.column.field("x")
    assert column.null_count == 2
    if value is not None:
        found = (
            column[0].as_py() if isinstance(value, int | float | bytes | list) else str(column[0].cast(pa.string()))
        )
        assert found == value


@pytest.mark.parametrize(
    ("type_name", "text", "why"),
    [
        ("int64", "1.5", 'field "x" should be int64, but is 1.5'),
        ("int64", "1.0", "should be int64, but is 1.0"),
        ("int64", '"1"', 'should be int64, but is "1"'),
        ("int64", "true", "should be int64, but is true"),
        ("int64", "9223372036854775808", "should be int64, but is 9223372036854775808"),
        ("int8", "128", "should be int8, but is 128"),
        ("uint32", "-1", "should be uint32, but is -1"),
        ("string", "1", "should be string, but is 1"),
        ("bool", "0", "should be bool, but is 0"),
        ("double", '"x"', 'should be double, but is "x"'),
        ("float", "1e39", "should be float, but is 1E[+]39"),
        ("decimal128(5, 2)", "1000.01", r"should be decimal128\(5, 2\), but is \"?1000.01"),
        ("decimal128(5, 2)", "1.001", "1.001"),
        ("decimal128(3, 3)", "1", "should be decimal128"),
        ("decimal128(5, 2)", "1e99999999999999999999", "should be decimal128"),
        ("decimal128(5, 2)", '"\\ud800"', "half of a character"),
        ("timestamp[us]", '"soon"', 'should be timestamp.us., but is "soon"'),
        ("timestamp[us]", "1700000000", "but is 1700000000"),
        ("date32", '"2023-02-29"', "2023-02-29"),
        ("time64[us]", '"25:00"', "25:00"),
        ("binary", '"A"', 'should be binary, but is "A"'),
        ("fixed_size_binary[2]", '"AAEC"', "AAEC"),
        ("struct<a: int64>", "[1]", "should be struct"),
        ("struct<a: int64>", '{"a": "b"}', 'field "x.a" should be int64'),
        ("list<int64>", '{"a": 1}', "should be list"),
        ("list<int64>", '[1, "b"]', 'field "x.1." should be int64'),
        ("map<string, int64>", '{"k": "b"}', 'field "x.k" should be int64'),
    ],
)
def test_a_value_that_does_not_fit_is_the_fault_of_its_record(type_name: str, text: str, why: str) -> None:
    texts = [f'{{"n": {n}}}' if n != 7 else f'{{"n": 7, "x": {text}, "new": 1}}' for n in range(20)]
    decoded = decode(texts, given={"x": type_name})
    assert list(decoded.faults) == [7]
    assert re.search(why, decoded.faults[7])
    assert [row["n"] for row in rows(decoded).values()] == [n for n in range(20) if n != 7]
    # The other fields of such a record are ignored.
    assert kind(decoded).get_field_index("new") < 0


POISON: dict[bytes | str, str] = {
    "": "empty",
    " \n": "empty",
    "null": "null, not an object",
    "7": "a number, not an object",
    '"x"': "a string, not an object",
    "[{}]": "an array, not an object",
    "{": "not JSON",
    '{"a": 1} {"a": 2}': "not JSON: Extra data",
    '{"a": 1}{"a": 2}': "not JSON: Extra data",
    '{"a": ': "not JSON",
    '{"b": 1}}': "not JSON",
    '{"a": 1,}': "not JSON",
    '{"a": 01}': "not JSON",
    "{'a': 1}": "not JSON",
    '{"a": NaN}': "no NaN",
    '{"a": -Infinity}': "no -Infinity",
    '{"a": "x\ny"}': "control character",
    '{"a": "x\ty"}': "control character",
    b'{"a": "\xff"}': "not UTF-8: invalid start byte at byte 7",
    '{"s": "\\ud800"}': "half of a character",
    '{"\\ud800": 1}': "half of a character",
    '{"a": "x"}': 'field "a" should be int64, but is "x"',
    '{"big": 18446744073709551616}': "beyond int64",
    '{"huge": 1e999}': "beyond double",
    '{"huge": 1e99999999999999999999}': "beyond double",
    '{"a": 1e99999999999999999999}': 'field "a" should be int64',
    '{"mixed": [1, "x"]}': 'field "mixed.1." should be int64, but is "x"',
    '{"A": 1}': "differs in case only",
    '{"new": 1, "NEW": 2}': "differs in case only",
    '{"": 1}': "no name",
    '{"nul\\u0000": 1}': "has a NUL in its name",
    '{"new": {"b\\u0000": 1}}': "has a NUL in its name",
    '{"new": {"b": 1}, "new.b": 2}': 'field "new.b" is there twice',
    '{"New.b": 2, "new": {"b": 1}}': 'field "new.b" differs in case only from "New.b"',
    '{"new": [{"b": 1}], "new.element.b": 2}': 'field "new.element.b" is there twice',
    '{"new": [1], "new.element": 2}': 'field "new.element" is there twice',
    '{"deep": ' + '{"x":' * 60 + "1" + "}" * 61: f"more than {MOST_LEVELS} levels",
    '{"deep": ' + "[" * 1_000_000: "more than 500 levels",
    '{"deep": ' + "[" * 100_000 + "]" * 100_000 + "}": "more than 500 levels",
    json.dumps({f"k{n}": n for n in range(10_000)}): f"more than {MOST_COLUMNS} columns",
}


@pytest.mark.parametrize("poison", POISON, ids=lambda poison: repr(poison[:20]))
def test_a_record_that_cannot_be_read_is_alone(poison: bytes | str) -> None:
    good: list[bytes | str] = [f'{{"a": {n}, "s": "x"}}' for n in range(6)]
    for at in (0, 3, 6):
        decoded = decode([*good[:at], poison, *good[at:]], pa.schema([("a", pa.int64())]))
        assert list(decoded.faults) == [at]
        assert re.search(POISON[poison], decoded.faults[at])
        assert [row["a"] for row in rows(decoded).values()] == list(range(6))
        assert kind(decoded) == struct(a=pa.int64(), s=pa.string())


@pytest.mark.parametrize("type_name", ["timestamp[us, tz=UTC]", "date32", "time64[us]", "fixed_size_binary[3]"])
@pytest.mark.parametrize("poison", ["{oops}", '{"n": "x"}', '{"big": 18446744073709551616}'])
def test_objects_that_are_absent_beside_a_record_that_cannot_be_read(type_name: str, poison: str) -> None:
    texts = ['{"n": 1}', '{"n": 2, "o": null}', '{"n": 3, "o": {}}', poison]
    decoded = decode(texts, given={"o": f"struct<at: {type_name}>", "n": "int64"})
    assert list(decoded.faults) == [3]
    assert [row["o"] for row in rows(decoded).values()] == [None, None, {"at": None}]


def test_objects_that_are_absent_beside_a_map() -> None:
    decoded = decode(["{}", '{"m": {}}'], given={"o": "struct<at: date32>", "m": "map<string, date32>"})
    assert rows(decoded) == {0: {"o": None, "m": None}, 1: {"o": None, "m": []}}


def test_a_number_that_is_next_to_nothing() -> None:
    texts = ['{"a": 1.5}', '{"a": 1e-99999999999999999999}']
    assert [row["a"] for row in rows(decode(texts)).values()] == [1.5, 0.0]
    assert [row["a"] for row in rows(decode([*texts, "{oops}"])).values()] == [1.5, 0.0]


def test_names_are_compared_by_their_paths() -> None:
    known = pa.schema([("a", struct(b=pa.int64())), ("c.d", pa.int64())])
    decoded = decode(['{"a.b": 1}', '{"c": {"d": 1}}', '{"A.c": 1, "c": {"e": 2}}', '{"a": {"C": 1}}'], known)
    assert list(decoded.faults) == [0, 1, 3]
    assert rows(decoded)[2] == {"a": None, "c.d": None, "A.c": 1, "c": {"e": 2}}


def test_whatever_one_text_does_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(text: bytes) -> Any:
        return 1 / 0 if b"odd" in text else learner.load(text)

    monkeypatch.setattr(batch_reader, "load", load)
    decoded = decode(['{"a": 1}', '{"odd": x}', '{"a": 2}'])
    assert list(decoded.faults) == [1]
    assert "ZeroDivisionError" in decoded.faults[1]
    assert [row["a"] for row in rows(decoded).values()] == [1, 2]


def test_all_kinds_of_poison_at_once() -> None:
    texts: list[bytes | str | None] = [text for poison in POISON for text in (poison, '{"a": 1}', None)]
    decoded = decode(texts, pa.schema([("a", pa.int64())]))
    assert sorted(decoded.faults) == list(range(0, len(texts), 3))
    assert len(rows(decoded)) == len(POISON)


def test_the_first_type_of_a_new_field_wins() -> None:
    decoded = decode(['{"a": null}', '{"a": "x"}', '{"a": 1}', '{"a": "y"}', '{"a": {"b": 1}}'])
    assert kind(decoded) == struct(a=pa.string())
    assert sorted(decoded.faults) == [2, 4]


def test_the_last_of_keys_that_come_twice_counts() -> None:
    texts = ['{"a": 1, "b": {"c": 1, "c": 2.5}, "a": 2}', '{"a": 18446744073709551616, "a": 3}', '{"a": 4}']
    decoded = decode(texts)
    assert not decoded.faults
    assert [row["a"] for row in rows(decoded).values()] == [2, 3, 4]
    assert rows(decoded)[0]["b"] == {"c": 2.5}


def test_marks_and_blanks_around() -> None:
    texts = ['\ufeff{"a": 1}', ' \r\n{"a": 2}\t', '{\n\t"a":\r\n3\n}\n', '{"a": 4}']
    assert [row["a"] for row in rows(decode(texts)).values()] == [1, 2, 3, 4]


def test_names_that_are_data_end_at_a_limit() -> None:
    decoded = decode([json.dumps({"same": {f"key {n}": n}}) for n in range(1000)], most_columns=100)
    assert kind(decoded).field("same").type.num_fields == 99
    assert sorted(decoded.faults) == list(range(99, 1000))
    known = pa.schema([(f"c{n}", pa.int64()) for n in range(100)])
    assert sorted(decode(['{"c0": 1}', '{"new": 1}'], known, most_columns=100).faults) == [1]


def test_values_that_are_no_objects() -> None:
    decoded = decode(["1", "null", None, '{"a": 1}', '1, "b": 2', '1}{"value": 2', " 3\n", ""], records=False)
    assert rows(decoded) == {0: 1, 1: None, 6: 3}
    assert sorted(decoded.faults) == [3, 4, 5, 7]
    decoded = decode(['{"a": 1}', '{"b": "x"}'], records=False)
    assert rows(decoded) == {0: {"a": 1, "b": None}, 1: {"a": None, "b": "x"}}
    decoded = decode(['"2024-01-01"', '"x"'], pa.schema([("value", pa.date32())]), records=False)
    assert list(decoded.faults) == [1]
    assert kind(decode(["null"], records=False)) == pa.null()


def test_slices_nulls_and_nothing() -> None:
    decoder = JsonDecoder({})
    array = payloads([b"\xff", '{"a": 1}', None, '{"a": 2}', "x"]).values.slice(1, 3)
    decoded = decoder.decode(payloads([])._replace(values=array), None)
    assert rows(decoded) == {0: {"a": 1}, 2: {"a": 2}}
    assert not decoded.faults
    for texts in ([], [None, None]):
        assert not decode(texts).columns


def test_settings() -> None:
    decoder = pickle.loads(pickle.dumps(JsonDecoder({"at": "timestamp[us]", "tags": "list<string>"})))
    assert list(decoder.kinds()) == [struct(at=pa.timestamp("us"), tags=pa.list_(pa.string()))]
    assert list(JsonDecoder({}).kinds()) == []
    for wrong in ("integer64", "null", "list<int64", "month_day_nano_interval", "map<int64, string>"):
        with pytest.raises(ConfigError, match="'x'"):
            JsonDecoder({"x": wrong})
    for names in (["a", "A"], ["o", "o.x"], ["a\0"], [""]):
        with pytest.raises(ConfigError, match=r"Columns of the format `json`: (field|column)"):
            JsonDecoder(dict.fromkeys(names, "struct<x: int64>"))
