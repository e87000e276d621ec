"""The kernels of structure find what walking up finds, with circles, orphans, several roots and ids that repeat."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from frazil.query.traceql.engine import structure
from frazil.query.traceql.engine.structure import BROKEN, ROOT
from frazil.query.traceql.engine.values import Bools, Ints


class Graph:
    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        count = int(random.integers(1, 40))
        self.count = count
        self.traces: Ints = np.sort(random.integers(0, random.integers(1, 4), count))
        own = np.where(random.random(count) < 0.9, np.arange(1, count + 1), random.integers(1, count + 1, count))
        near = np.maximum(0, np.arange(count) - random.integers(0, 3, count))
        parents = np.where(random.random(count) < 0.85, near, random.integers(0, count + 3, count))
        self.spans, self.given = own.astype(np.uint64), parents.astype(np.uint64)
        self.kinds: Ints = random.integers(1, 4, count)
        self.chosen: Bools = random.random(count) < 0.3
        self.longest = int(np.bincount(self.traces).max())

    def parent(self, row: int) -> int:
        if not self.given[row]:
            return ROOT
        found = [
            each
            for each in range(self.count)
            if self.traces[each] == self.traces[row] and self.spans[each] == self.given[row]
        ]
        if len(found) == 2:
            found = [each for each in found if self.kinds[each] == (3 if self.kinds[row] == 2 else 2)][:1]
        return found[0] if len(found) == 1 and found[0] != row else BROKEN

    def connected(self, row: int) -> int:
        at, seen = row, set()
        while at >= 0 and at not in seen:
            seen.add(at)
            at = self.parent(at)
        return self.parent(row) if at == ROOT else BROKEN


def up(parents: Ints, row: int) -> Iterator[int]:
    while (row := int(parents[row])) >= 0:
        yield row


@pytest.mark.parametrize("seed", range(60))
def test_relations(seed: int) -> None:
    graph = Graph(seed)
    rows = range(graph.count)
    given = structure.parent_rows(graph.traces, graph.spans, graph.given, graph.kinds)
    assert given.tolist() == [graph.parent(row) for row in rows]
    parents = structure.connected_parents(given, graph.longest)
    assert parents.tolist() == [graph.connected(row) for row in rows]
    chosen, longest = graph.chosen, graph.longest
    of_chosen = [set(up(parents, row)) for row in rows if chosen[row]]
    assert structure.below(parents, chosen, longest).tolist() == [
        any(chosen[each] for each in up(parents, row)) for row in rows
    ]
    assert structure.above(parents, chosen, longest).tolist() == [
        any(row in each for each in of_chosen) for row in rows
    ]
    assert structure.children_of(parents, chosen).tolist() == [
        bool(parents[row] >= 0 and chosen[parents[row]]) for row in rows
    ]
    assert structure.parents_of(parents, chosen).tolist() == [
        any(chosen[each] and parents[each] == row for each in rows) for row in rows
    ]
    assert structure.siblings_of(parents, graph.traces, chosen).tolist() == [
        parents[row] != BROKEN
        and any(
            each != row and chosen[each] and parents[each] == parents[row] and graph.traces[each] == graph.traces[row]
            for each in rows
        )
        for row in rows
    ]


@pytest.mark.parametrize("seed", range(30))
def test_nested_sets_say_what_is_below_what(seed: int) -> None:
    graph = Graph(seed)
    given = structure.parent_rows(graph.traces, graph.spans, graph.given, graph.kinds)
    parents = structure.connected_parents(given, graph.longest)
    left, right, above = structure.nested_sets(parents, graph.traces, graph.longest)
    for trace in np.unique(graph.traces):
        rows = np.flatnonzero((graph.traces == trace) & (parents != BROKEN)).tolist()
        numbers = np.sort(np.concatenate([left[rows], right[rows]]))
        assert numbers.tolist() == list(range(1, 2 * len(rows) + 1))
        for row in rows:
            inside = {each for each in rows if left[row] < left[each] and right[each] < right[row]}
            assert inside == {each for each in rows if row in up(parents, each)}
            assert above[row] == (-1 if parents[row] == ROOT else left[parents[row]])
    broken = parents == BROKEN
    assert not left[broken].any()
    assert not right[broken].any()
    assert not above[broken].any()


def test_a_chain_and_a_circle_of_many_spans_take_no_time() -> None:
    count = 100_000
    chain = np.arange(-1, count - 1)
    first, last = np.arange(count) == 0, np.arange(count) == count - 1
    begun = time.monotonic()
    assert structure.connected_parents(chain, count).tolist() == chain.tolist()
    assert structure.below(chain, first, count).sum() == count - 1
    assert structure.above(chain, last, count).sum() == count - 1
    assert structure.nested_sets(chain, np.zeros(count, np.int64), count)[1][0] == 2 * count
    circle = np.roll(np.arange(count), 1)
    assert (structure.connected_parents(circle, count) == BROKEN).all()
    assert time.monotonic() - begun < 5
