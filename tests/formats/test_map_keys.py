"""A key that comes twice in a map is found, whatever the keys are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.map_keys import repeats_a_key


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        # There are few letters, so that many keys are equal, and many look equal when they are joined.
        (pa.string(), st.text("ab", max_size=3)),
        (pa.int32(), st.integers(0, 5)),
        (pa.binary(), st.binary(max_size=1)),
        (pa.dictionary(pa.int32(), pa.string()), st.text("ab", max_size=2)),
    ],
    ids=str,
)
@given(data=st.data())
def test_a_map_with_a_key_twice_is_found(
    kind: pa.DataType, keys: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    rows = st.lists(keys, max_size=4)
    alike = st.builds(lambda row, count: [row] * count, rows, st.integers(1, 8))
    maps = data.draw(st.one_of(st.lists(rows, max_size=8), alike))
    array = pa.array(maps, pa.list_(kind))
    expected = any(len(set(each)) < len(each) for each in maps)
    assert repeats_a_key(array.offsets, array.values) is expected
