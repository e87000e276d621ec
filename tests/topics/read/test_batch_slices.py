from __future__ import annotations

from frazil.topics.messages import Message, to_batch
from frazil.topics.read.batch_slices import copy_if_sparse


def test_a_small_part_keeps_nothing_else_in_memory_and_a_large_one_is_not_copied() -> None:
    batch = to_batch([Message(bytes([number]) * 1000, 1, attributes={"a": "b"}) for number in range(250)], 1)
    part = batch.slice(100, 10)
    copied = copy_if_sparse(part)
    assert copied.equals(part)
    assert copied.get_total_buffer_size() < 20_000 < batch.get_total_buffer_size()
    large = batch.slice(10)
    assert copy_if_sparse(large) is large
