"""Cached rows equal those that would be made anew, however often and in whichever order they come."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.telemetry import row_cache as known
from frazil.formats.telemetry.row_cache import RowCache

Asked = list[tuple[str, int]]
"""Keys, and how often each is repeated."""


class Converter:
    def __init__(self) -> None:
        self.converted: list[str] = []

    def __call__(self, keys: Sequence[str]) -> pa.StructArray:
        self.converted += keys
        pairs = pa.array([[(key, "value"), ("", key * 2)] for key in keys], pa.map_(pa.string(), pa.string()))
        lengths = pa.array([len(key) or None for key in keys], pa.int64())
        return pa.StructArray.from_arrays([pa.array(keys, pa.string()), pairs, lengths], ["key", "pairs", "length"])


def ask(remembered: RowCache[str], asked: Asked) -> pa.StructArray:
    found = remembered.repeated([key for key, _ in asked], [count for _, count in asked])
    found.validate(full=True)
    return found


def expected(asked: Asked) -> pa.StructArray:
    return Converter()([key for key, count in asked for _ in range(count)])


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abcdefghij") | st.text(max_size=3), st.integers(0, 300)), max_size=8),
        max_size=8,
    )
)
def test_whatever_is_asked(questions: list[Asked]) -> None:
    remembered = RowCache(Converter(), len)
    for asked in questions:
        assert ask(remembered, asked).equals(expected(asked))


@pytest.mark.parametrize("count", [1, known.LONG, known.LONGEST, known.LONGEST + 1, 3 * known.LONGEST + 7])
def test_copies_are_of_use_for_more_and_for_fewer(count: int) -> None:
    converter = Converter()
    remembered = RowCache(converter, len)
    for times in (count, count, count + 1, max(1, count - 1), 1):
        assert ask(remembered, [("a", times)]).equals(expected([("a", times)]))
    assert converter.converted == ["a"]


def test_what_is_cut_off_is_no_part_of_the_answer() -> None:
    remembered = RowCache(Converter(), len)
    ask(remembered, [("key", known.LONGEST)])
    assert ask(remembered, [("key", known.LONG)]).get_total_buffer_size() < 10_000


def test_it_forgets_when_there_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST", 3)
    monkeypatch.setattr(known, "MOST_COPIES_BYTES", 40_000)
    converter = Converter()
    remembered = RowCache(converter, len)
    for number in range(10):
        asked = [(f"{number}", 200), (f"{number + 1}", 300)]
        assert ask(remembered, asked).equals(expected(asked))
        assert remembered._known is not None
        assert len(remembered._known.places) <= 3
        assert remembered._copies_bytes <= 40_000
    assert len(converter.converted) < 20


def test_rows_that_are_too_large_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST_BYTES", 100)
    monkeypatch.setattr(known, "LARGEST", 100)
    converter = Converter()
    remembered = RowCache(converter, len)
    asked = [("long" * 100, 2 * known.LONG)]
    for _ in range(3):
        assert ask(remembered, asked).equals(expected(asked))
    assert len(converter.converted) == 3
    assert remembered._copies_bytes == 0


def test_copies_of_large_rows_are_few_and_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "LARGEST", 30_000)
    remembered = RowCache(Converter(), len)
    asked = [("long" * 10, known.LONGEST)]
    assert ask(remembered, asked).equals(expected(asked))
    copies = remembered._copies["long" * 10]
    assert known.LONG < len(copies.rows) < known.LONGEST
    assert ask(remembered, asked).equals(expected(asked))
    assert remembered._copies["long" * 10] is copies


def test_nothing_long_is_kept() -> None:
    converter = Converter()
    remembered = RowCache(converter, len)
    long = "long" * known.LONGEST_KEY
    for asked in ([(long, 1)], [("a", 2), (long, 100), ("a", 1)], [(long, 100)]):
        assert ask(remembered, asked).equals(expected(asked))
    assert converter.converted == [long, "a", long, long]
    assert remembered._known is None
    assert not remembered._copies


def test_many_threads() -> None:
    remembered = RowCache(Converter(), len)

    def work(thread: int) -> None:
        for number in range(200):
            asked = [(f"{(thread + number) % 17}", number), (f"{number % 13}", 100)]
            assert ask(remembered, asked).equals(expected(asked))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
