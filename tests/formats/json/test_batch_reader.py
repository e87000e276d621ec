"""Whatever Arrow reads at once is what reading each text alone would have given, in blocks of any size."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.json import batch_reader
from frazil.formats.json.parsing import BadJson
from frazil.formats.values import DecodedValues
from tests.formats.json.reading import decode, rows

KNOWN = pa.schema(
    [
        ("i", pa.int64()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.struct([("i", pa.int64())])),
        ("l", pa.list_(pa.decimal128(4, 1))),
    ]
)
NUMBERS = [
    "0",
    "-0",
    "1",
    "2.5",
    "1e3",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "1e400",
    "NaN",
]
SCALARS = st.sampled_from(
    [*NUMBERS, "null", "true", '"x"', '""', '"2024-01-01T00:00:00Z"', '"2024-01-01"', '"\\ud800"', '"é"', "[]", "{}"]
)
KEYS = st.sampled_from(["i", "d", "s", "t", "n", "l", "new", "New", "other", "", "x"])


def written(pairs: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{json.dumps(key)}: {value}" for key, value in pairs) + "}"


VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(KEYS, inner), max_size=3).map(written)
    ),
    max_leaves=4,
)
OBJECTS = st.lists(st.tuples(KEYS, VALUES), max_size=3).map(written)
TEXTS = st.none() | OBJECTS | OBJECTS | st.text('{}[]",:1a\n ', max_size=8) | VALUES


def alike(left: DecodedValues, right: DecodedValues) -> None:
    assert left.faults == right.faults
    assert rows(left) == rows(right)
    assert [part.column.type for part in left.columns] == [part.column.type for part in right.columns]


def refuse(*_: Any) -> Any:
    raise BadJson("not at once")


@given(st.lists(TEXTS, max_size=8), st.booleans(), st.sampled_from([None, KNOWN]))
def test_at_once_is_as_one_by_one(texts: list[str | None], records: bool, known: pa.Schema | None) -> None:
    settled = known if records else None
    at_once = decode(texts, settled, records=records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_reader, "parse", refuse)
        alike(at_once, decode(texts, settled, records=records))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_reader, "BLOCK_BYTES", 40)
        patch.setattr(batch_reader, "SAMPLE_TEXTS", 2)
        alike(at_once, decode(texts, settled, records=records))


def test_blocks_see_what_was_learnt_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "BLOCK_BYTES", 1000)
    texts = [f'{{"n": {n}, "null": null}}' for n in range(500)]
    texts[250] = '{"n": 250.5, "late": {"x": 1}}'
    texts[300] = '{"n": "x", "never": 1}'
    texts[400] = '{"late": {"y": "z"}}'
    decoded = decode(texts)
    assert list(decoded.faults) == [300]
    assert [part.column.type for part in decoded.columns] == [
        pa.struct([("n", pa.float64()), ("late", pa.struct([("x", pa.int64()), ("y", pa.string())]))])
    ]
    found = rows(decoded)
    assert [found[n]["n"] for n in (0, 249, 250, 299, 400, 499)] == [0.0, 249.0, 250.5, 299.0, None, 499.0]
    assert found[250]["late"] == {"x": 1, "y": None}


def test_in_a_batch_of_faults_the_few_good_records_are_found() -> None:
    texts = ['{"a": 1}' if n % 100 == 7 else '{"a": "x"}' for n in range(5000)]
    decoded = decode(texts, pa.schema([("a", pa.int64())]))
    assert list(rows(decoded)) == list(range(7, 5000, 100))
    assert len(decoded.faults) == 4950
