from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from frazil.topics.subscriptions.progress import Progress

END = 40
RANGES = st.lists(st.tuples(st.integers(0, END), st.integers(0, END)), max_size=30)
MARKS = st.integers(0, END)


def acknowledged(progress: Progress) -> set[int]:
    return {offset for offset in range(2 * END) if progress.has(offset)}


def made(mark: int, ranges: list[tuple[int, int]], turn: int = 0) -> tuple[Progress, set[int]]:
    progress, expected = Progress(mark, "e", turn), set(range(mark))
    for start, end in ranges:
        progress.acknowledge(start, end)
        expected |= set(range(start, end))
    return progress, expected


def check_shape(progress: Progress) -> None:
    """Checks that gaps are in order, not empty, and touch neither the mark nor each other."""
    assert all(start < end for start, end in progress.gaps)
    borders = [(0, progress.mark), *progress.gaps]
    assert all(before[1] < after[0] for before, after in pairwise(borders))


@given(MARKS, RANGES)
def test_as_a_set(mark: int, ranges: list[tuple[int, int]]) -> None:
    progress, expected = made(mark, ranges)
    assert acknowledged(progress) == expected
    assert progress.end == max(expected, default=-1) + 1
    check_shape(progress)


@given(MARKS, RANGES, MARKS, MARKS)
def test_what_is_missing(mark: int, ranges: list[tuple[int, int]], start: int, end: int) -> None:
    progress, expected = made(mark, ranges)
    missing = list(progress.missing(start, end))
    assert {offset for first, last in missing for offset in range(first, last)} == set(range(start, end)) - expected
    assert all(first < last for first, last in missing)
    assert progress.missing_count(end) == len(set(range(end)) - expected)


@given(MARKS, RANGES, MARKS, RANGES)
def test_two_accounts_of_one_turn_are_right_together(
    mark: int, ranges: list[tuple[int, int]], other_mark: int, other_ranges: list[tuple[int, int]]
) -> None:
    one, expected = made(mark, ranges)
    other, also = made(other_mark, other_ranges)
    joined, reverse = one.copy(), other.copy()
    joined.join(other)
    reverse.join(one)
    assert acknowledged(joined) == expected | also
    assert joined == reverse
    assert acknowledged(one) == expected
    check_shape(joined)


@given(MARKS, RANGES, MARKS)
def test_the_later_turn_is_right(mark: int, ranges: list[tuple[int, int]], back_to: int) -> None:
    before, expected = made(mark, ranges)
    after = before.copy()
    after.rewind(back_to, "f")
    assert acknowledged(after) == {offset for offset in expected if offset < back_to}
    check_shape(after)
    joined = before.copy()
    joined.join(after)
    assert joined == after
    after.join(before)
    assert joined == after
    assert after.epoch == "f"


def test_restart_forgets_all_but_the_mark() -> None:
    progress, _ = made(3, [(7, 9)])
    progress.restart(5, "g")
    assert progress == Progress(5, "g", 1)


@given(MARKS, RANGES, st.integers(0, 3))
def test_json(mark: int, ranges: list[tuple[int, int]], turn: int) -> None:
    progress, _ = made(mark, ranges, turn)
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress
