from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.scan.offset_ranges import Bound, OffsetRange, split_by_source

offset = st.integers(0, 50)


@given(st.tuples(offset, offset).map(sorted), offset, offset)
def test_each_offset_is_in_one_place(wanted: list[int], border: int, sealed_end: int) -> None:
    start, end = wanted
    table, segments, tail = split_by_source(OffsetRange(start, end), border, sealed_end)
    assert [*range(*table), *range(*segments), *range(*tail)] == list(range(start, end))
    assert all(each < border for each in range(*table))
    assert all(border <= each < sealed_end for each in range(*segments))
    assert all(each >= max(border, sealed_end) for each in range(*tail))


def test_a_bound_has_a_word_for_partitions_it_does_not_name() -> None:
    bound = Bound(-2, {1: 7})
    assert [bound.of(0), bound.of(1)] == [-2, 7]
