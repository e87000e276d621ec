"""Tests that the checksum of rows tells any difference between them but their order."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.maintain.rewrite.row_checksum import RowChecksum

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("flag", pa.bool_()),
        ("ratio", pa.float64()),
        ("text", pa.string()),
        ("trace", pa.binary(16)),
        ("odd", pa.binary(5)),
        ("price", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.map_(pa.string(), pa.string())),
        ("parts", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]))),
    ]
)
START = datetime(2026, 1, 1, tzinfo=UTC)


def maybe(rng: random.Random, value: object) -> object:
    return value if rng.random() < 0.8 else None


def row(rng: random.Random) -> dict[str, object]:
    texts = ["", "a", "b", "ab", "ba", "é" * 40]
    return {
        "id": maybe(rng, rng.randrange(-(2**60), 2**60)),
        "small": maybe(rng, rng.randrange(-5, 5)),
        "flag": maybe(rng, rng.random() < 0.5),
        "ratio": maybe(rng, rng.choice([0.0, -0.0, 1.5, float("inf")])),
        "text": maybe(rng, rng.choice(texts)),
        "trace": maybe(rng, rng.randbytes(16)),
        "odd": maybe(rng, rng.randbytes(5)),
        "price": maybe(rng, Decimal(rng.randrange(-(10**8), 10**8)) / 100),
        "at": maybe(rng, START + timedelta(microseconds=rng.randrange(10**12))),
        "tags": maybe(rng, [(rng.choice(texts), maybe(rng, rng.choice(texts))) for _ in range(rng.randrange(3))]),
        "parts": maybe(
            rng,
            [
                maybe(rng, {"a": maybe(rng, rng.randrange(3)), "b": maybe(rng, rng.choices(texts, k=2))})
                for _ in range(rng.randrange(3))
            ],
        ),
    }


def checksum(*batches: pa.RecordBatch) -> RowChecksum:
    found = RowChecksum()
    for batch in batches:
        found.add(batch)
    return found


def batch_of(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_order_slices_and_dictionaries_make_no_difference(seed: int, count: int) -> None:
    rng = random.Random(seed)
    rows = [row(rng) for _ in range(count)]
    whole = checksum(batch_of(rows))
    shuffled = rng.sample(rows, len(rows))
    cut = rng.randrange(count + 1)
    batch = batch_of(shuffled)
    assert checksum(batch.slice(0, cut), batch.slice(cut)) == whole
    place = SCHEMA.names.index("text")
    encoded = batch.set_column(place, "text", batch.column("text").dictionary_encode())
    assert checksum(encoded) == whole


@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from(SCHEMA.names))
def test_a_changed_lost_or_repeated_row_makes_one(seed: int, count: int, column: str) -> None:
    rng = random.Random(seed)
    rows = [row(rng) for _ in range(count)]
    whole = checksum(batch_of(rows))
    at = rng.randrange(count)
    assert checksum(batch_of(rows[:at] + rows[at + 1 :])) != whole
    assert checksum(batch_of([*rows, rows[at]])) != whole
    other = next(value for value in iter(lambda: row(rng)[column], object()) if repr(value) != repr(rows[at][column]))
    changed = [*rows[:at], {**rows[at], column: other}, *rows[at + 1 :]]
    assert checksum(batch_of(changed)) != whole


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([[("a", "b")], []], [[], [("a", "b")]]),
        ([[("a", "b"), ("b", "a")]], [[("b", "a"), ("a", "b")]]),
        ([[("a", None)]], [[("a", "")]]),
        ([None], [[]]),
    ],
)
def test_maps_are_told_apart(one: list[object], other: list[object]) -> None:
    kind = pa.map_(pa.string(), pa.string())
    ids = pa.array(range(len(one)))
    batches = [pa.RecordBatch.from_arrays([ids, pa.array(each, kind)], ["id", "tags"]) for each in (one, other)]
    assert checksum(batches[0]) != checksum(batches[1])


def test_values_that_change_places_are_seen() -> None:
    """The checksum is one of rows, not of columns."""
    one = pa.RecordBatch.from_pydict({"a": [1, 2], "b": [3, 4]})
    other = pa.RecordBatch.from_pydict({"a": [1, 2], "b": [4, 3]})
    swapped = pa.RecordBatch.from_pydict({"a": [3, 4], "b": [1, 2]})
    assert len({hash(checksum(each)) for each in (one, other, swapped)}) == 3
