"""Tests that caches and queries share one budget."""

from __future__ import annotations

import threading
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.engine.memory import ENTRY_BYTES, MemoryBudget
from tests.examples import examples

TOTAL = 10_000


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("get"), st.integers(0, 8)),
            st.tuples(st.just("hold"), st.integers(0, 6000)),
            st.tuples(st.just("release"), st.just(0)),
        ),
        max_size=50,
    )
)
def test_both_together_never_have_more_than_there_is(steps: list[tuple[str, int]]) -> None:
    budget = MemoryBudget(TOTAL)
    held: list[int] = []
    for step, number in steps:
        if step == "get":
            assert budget.cache.get(number, lambda key=number: key * 500, lambda size: size) == number * 500  # type: ignore[misc]
        elif step == "hold":
            fits = sum(held) + number <= TOTAL
            assert budget.hold(number) == fits
            held += [number] * fits
        elif held:
            budget.release(held.pop())
        assert budget.held == sum(held)
        assert budget.held + budget.cache.nbytes <= TOTAL


def test_what_was_used_last_stays() -> None:
    cache = MemoryBudget(3 * (1000 + ENTRY_BYTES)).cache
    for key in "abcad":
        cache.get(key, lambda: 1000, int)
    assert [key for key in "abcd" if cache.find(key)] == ["a", "c", "d"]
    cache.get("huge", lambda: 100_000, int)
    assert [key for key in "abcd" if cache.find(key)] == ["a", "c", "d"]


def test_a_value_that_several_want_is_made_once() -> None:
    cache = MemoryBudget(TOTAL).cache
    made: list[int] = []

    def make() -> int:
        time.sleep(0.05)
        made.append(1)
        return 7

    threads = [threading.Thread(target=cache.get, args=("k", make, int)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 1
    assert cache.get("k", make, int) == 7


def test_a_value_that_two_made_at_once_counts_once() -> None:
    cache = MemoryBudget(TOTAL).cache
    first_may_end, second_makes, second_may_end = threading.Event(), threading.Event(), threading.Event()

    def make_too_large() -> int:
        first_may_end.wait(5)
        return TOTAL

    def make_slowly() -> int:
        second_makes.set()
        second_may_end.wait(5)
        return 100

    first = threading.Thread(target=cache.get, args=("k", make_too_large, int))
    second = threading.Thread(target=cache.get, args=("k", make_slowly, int))
    first.start()
    time.sleep(0.02)
    second.start()  # It waits for the first, whose value is not kept.
    time.sleep(0.02)
    first_may_end.set()
    first.join()
    assert second_makes.wait(5)
    cache.get("k", lambda: 100, int)  # Nobody is known to make it.
    second_may_end.set()
    second.join()
    assert cache.nbytes == 100 + ENTRY_BYTES


def test_large_keys_count_too() -> None:
    cache = MemoryBudget(TOTAL).cache
    for number in range(100):
        cache.get(("values", ("x" * (TOTAL // 10), number)), lambda: 1, int)
        assert cache.nbytes <= TOTAL
    assert cache.nbytes > TOTAL // 2
    assert sum(cache.find(("values", ("x" * (TOTAL // 10), number))) is not None for number in range(100)) < 10
