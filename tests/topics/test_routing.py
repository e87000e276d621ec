from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.topics.routing import partition_of, split_by_key


@pytest.mark.parametrize(
    ("key", "value"), [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)]
)
def test_the_hash_is_fnv_1a(key: str, value: int) -> None:
    assert partition_of(key, 2**64) == value


@given(st.lists(st.none() | st.sampled_from(["a", "b", "c", "ü"]), min_size=1), st.integers(1, 5))
def test_each_message_goes_where_its_key_says(keys: list[str | None], partitions: int) -> None:
    shares = split_by_key(pa.array(keys, pa.string()), partitions, partitions - 1)
    found = {int(row): share.partition for share in shares for row in share.rows}
    assert found == {
        row: partitions - 1 if key is None else partition_of(key, partitions) for row, key in enumerate(keys)
    }
    assert all(list(share.rows) == sorted(share.rows) for share in shares)
