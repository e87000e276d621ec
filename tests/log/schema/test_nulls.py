"""Columns of nulls have nothing but nulls, however many rows they have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.log.schema.nulls import FEWEST, MOST, are_null, nulls

KINDS = [pa.int64(), pa.string(), pa.bool_(), pa.list_(pa.float64()), pa.map_(pa.string(), pa.string())]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("count", [0, 1, FEWEST, FEWEST + 1, MOST, MOST + 1])
def test_all_are_null(kind: pa.DataType, count: int) -> None:
    found = nulls(count, kind)
    found.validate(full=True)
    assert found.equals(pa.nulls(count, kind))
    assert are_null(found)


def test_they_share_their_memory() -> None:
    before = pa.total_allocated_bytes()
    columns = [nulls(MOST, pa.uint64()) for _ in range(100)]
    assert pa.total_allocated_bytes() - before < 2 * columns[0].nbytes


def test_one_value_is_enough() -> None:
    assert not are_null(pa.array([None, 1, None]))
    assert not are_null(pa.chunked_array([pa.nulls(2, pa.int64()), pa.array([1])]))
