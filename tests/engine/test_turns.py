"""Tests that turns are fair, for whatever comes and goes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.engine.turns import Turns
from tests.examples import examples

Query = tuple[str, int]


@settings(max_examples=examples(50))
@given(st.lists(st.sampled_from("aaaab"), min_size=1, max_size=40))
def test_tenants_take_turns_and_each_has_its_queries_in_order(tenants: list[str]) -> None:
    turns: Turns[Query] = Turns()
    for number, tenant in enumerate(tenants):
        turns.add(tenant, (tenant, number))
    left, taken = Counter(tenants), []
    while (query := turns.next(lambda _: True)) is not None:
        turns.take(query[0], query)
        taken.append(query)
    assert len(turns) == 0
    for name in "ab":
        own = [number for tenant, number in taken if tenant == name]
        assert own == sorted(own)
    for before, after in pairwise(taken):
        left[before[0]] -= 1
        assert before[0] != after[0] or all(not left[name] for name in left if name != before[0])


def test_those_that_may_not_run_are_passed_over() -> None:
    turns: Turns[Query] = Turns()
    for query in (("a", 1), ("a", 2), ("b", 3)):
        turns.add(query[0], query)
    assert turns.next(lambda query: query[1] > 1) == ("a", 2)
    assert turns.next(lambda query: query[0] == "b") == ("b", 3)
    assert turns.next(lambda _: False) is None
    turns.remove("a", ("a", 1))
    assert (turns.waiting("a"), turns.waiting("b"), turns.waiting("c")) == (1, 1, 0)
