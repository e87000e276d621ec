from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats import kafka
from frazil.hot.keys import LONGEST, as_bytes, hash_key, hash_keys, key_column

KEYS = st.one_of(
    st.none(), st.binary(max_size=40), st.binary(min_size=LONGEST - 9, max_size=LONGEST + 9), st.just(b"\0" * 8)
)


@given(st.lists(KEYS, max_size=30), st.integers(0, 10), st.integers(0, 30))
def test_a_column_and_its_keys_have_the_same_hashes(keys: list[bytes | None], start: int, length: int) -> None:
    column = pa.array(keys, pa.binary()).slice(start, length)
    expected = [(i, hash_key(key)) for i, key in enumerate(column.to_pylist()) if key is not None]
    hashes = hash_keys(column).tolist()
    assert [(i, hashes[i]) for i, _ in expected] == expected


def test_hashes_of_similar_keys_differ() -> None:
    keys = pa.array([f"user-{i:010d}".encode() for i in range(200_000)])
    distinct = len(set(hash_keys(keys).tolist()))
    assert distinct > 199_990, "chance alone makes about five of them collide"
    assert len({hash_key(b"\0" * n) for n in range(64)}) == 64


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["é", None]), ["é".encode(), None]),
        (pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (pa.array([-5, None], pa.int64()), [b"-5", None]),
        (pa.array([True]), [b"true"]),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), [b"1.50"]),
    ],
)
def test_keys_of_any_type_are_bytes(column: pa.Array, expected: list[bytes | None]) -> None:
    assert as_bytes(column).to_pylist() == expected


def test_which_column_has_the_keys() -> None:
    schema = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    assert key_column(kafka.SCHEMA, "id") == kafka.KEY, "records from Kafka have their own"
    assert key_column(schema, "id") == "id"
    assert key_column(schema, None) is None
    assert key_column(schema, "other") is None, "it may come with a later schema"
    assert key_column(schema, "tags") is None
