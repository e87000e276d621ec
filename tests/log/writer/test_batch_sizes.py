"""Batches that are too large are split."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from frazil.log.writer.batch_sizes import split_batch


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=50), st.integers(1, 10_000))
def test_split_batches_are_all_of_it_and_small_enough(sizes: list[int], most: int) -> None:
    batch = pa.record_batch([pa.array([bytes(size) for size in sizes], pa.binary())], names=["value"])
    found = list(split_batch(batch, most))
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([batch]))
    assert all(piece.nbytes <= most or piece.num_rows == 1 for piece in found)
