"""Relates spans by their parents, for all traces at once.

The parent of each row is a row, `ROOT`, or `BROKEN`: a span whose parent is missing, or that is in a circle, or below
such a span, is related to no other. Ways up a tree are followed by doubling, so a chain of n spans takes log n steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from frazil.query.traceql.engine.values import Bools, Ints

ROOT, BROKEN = -1, -2
_SERVER, _CLIENT = 2, 3
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

Ids = npt.NDArray[np.uint64]


def parent_rows(traces: Ints, spans: Ids, parents: Ids, kinds: Ints) -> Ints:
    """Returns the row of each span's parent, before what is not connected to a root is told apart.

    Where two spans of a trace have one id, as a client and its server may, a server's parent is the client, and that
    of all others is the server. Where more have it, nobody has such a parent.
    """
    found = np.full(len(spans), ROOT, np.int64)
    children = np.flatnonzero(parents != 0)
    if not len(children):
        return found
    with np.errstate(over="ignore"):
        keys = spans ^ (traces.astype(np.uint64) * _SPREAD)
        wanted = parents[children] ^ (traces[children].astype(np.uint64) * _SPREAD)
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    first, last = np.searchsorted(sorted_keys, wanted), np.searchsorted(sorted_keys, wanted, "right")
    chosen = order[np.minimum(first, len(order) - 1)]
    # Keys are hashes: that they are equal does not say that trace and id are.
    fits = (last > first) & (spans[chosen] == parents[children]) & (traces[chosen] == traces[children])
    for place in np.flatnonzero(last - first > 1).tolist():
        child = children[place]
        alike = [
            row
            for row in order[first[place] : last[place]].tolist()
            if spans[row] == parents[child] and traces[row] == traces[child]
        ]
        if len(alike) == 2:
            kind = _CLIENT if kinds[child] == _SERVER else _SERVER
            alike = [row for row in alike if kinds[row] == kind][:1]
        fits[place] = len(alike) == 1
        chosen[place] = alike[0] if alike else 0
    fits &= chosen != children
    found[children] = np.where(fits, chosen, BROKEN)
    return found


def connected_parents(parents: Ints, longest: int) -> Ints:
    """Marks as broken what no way up leads from to a root. `longest` is the size of the largest trace."""
    reached = parents == ROOT
    way = np.where(parents >= 0, parents, np.arange(len(parents)))
    step = 1
    while step <= longest:
        reached = reached | reached[way]
        way = way[way]
        step *= 2
    return np.where(reached, parents, BROKEN)


def below(parents: Ints, chosen: Bools, longest: int) -> Bools:
    """Tells which spans have an ancestor among the chosen ones."""
    count = len(parents)
    way = np.append(np.where(parents >= 0, parents, count), count)
    found: Bools = np.append(chosen, False)[way]
    step = 1
    while step <= longest and (way[:-1] != count).any():
        found = found | found[way]
        way = way[way]
        step *= 2
    return found[:count]


def above(parents: Ints, chosen: Bools, longest: int) -> Bools:
    """Tells which spans have a descendant among the chosen ones."""
    found = parents_of(parents, chosen)
    way = np.where(parents >= 0, parents, -1)
    step = 1
    while step <= longest and (way >= 0).any():
        rising = found & (way >= 0)
        found[way[rising]] = True
        way = np.where(way >= 0, way[np.maximum(way, 0)], -1)
        step *= 2
    return found


def children_of(parents: Ints, chosen: Bools) -> Bools:
    if not len(parents):
        return np.zeros(0, bool)
    return (parents >= 0) & chosen[np.maximum(parents, 0)]


def parents_of(parents: Ints, chosen: Bools) -> Bools:
    found = np.zeros(len(parents), bool)
    rows = parents[chosen]
    found[rows[rows >= 0]] = True
    return found


def siblings_of(parents: Ints, traces: Ints, chosen: Bools) -> Bools:
    """Tells which spans share their parent with another span that is chosen. The roots of a trace are siblings."""
    count = len(parents)
    groups = np.where(parents >= 0, parents, np.where(parents == ROOT, count + traces, -1))
    grouped = groups >= 0
    found = np.zeros(count, bool)
    if not grouped.any():
        return found
    among = np.bincount(groups[grouped & chosen], minlength=int(groups.max()) + 1)
    found[grouped] = among[groups[grouped]] - chosen[grouped] > 0
    return found


def child_counts(parents: Ints) -> Ints:
    return np.bincount(parents[parents >= 0], minlength=len(parents)).astype(np.int64)


def nested_sets(parents: Ints, traces: Ints, longest: int) -> tuple[Ints, Ints, Ints]:
    """Numbers each trace depth-first: returns left, right, and the left of the parent.

    They are 0 for what is broken; -1 stands for the parent of a root. Rows of a trace lie together.
    """
    count = len(parents)
    connected = parents != BROKEN
    sizes = _subtree_sizes(parents, longest)
    groups = np.where(parents >= 0, parents, np.where(parents == ROOT, count + traces, -1))
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] >= 0]
    before = np.cumsum(sizes[order]) - sizes[order]
    begins = np.flatnonzero(np.append(True, np.diff(groups[order]) != 0)) if len(order) else np.zeros(0, np.int64)
    at_begin = np.repeat(before[begins], np.diff(np.append(begins, len(order))))
    # Each span is this far to the right of its parent: 1, and twice the spans in the trees of earlier siblings.
    left = np.zeros(count, np.int64)
    left[order] = 1 + 2 * (before - at_begin)
    way = np.where(parents >= 0, parents, -1)
    step = 1
    while step <= longest and (way >= 0).any():
        left = left + np.where(way >= 0, left[np.maximum(way, 0)], 0)
        way = np.where(way >= 0, way[np.maximum(way, 0)], -1)
        step *= 2
    left = np.where(connected, left, 0)
    right = np.where(connected, left + 2 * sizes - 1, 0)
    above_it = np.where(parents >= 0, left[np.maximum(parents, 0)] if count else 0, np.where(connected, -1, 0))
    return left, right, above_it


def _subtree_sizes(parents: Ints, longest: int) -> Ints:
    """Returns how many spans the tree below each span has, with itself."""
    count = len(parents)
    sizes = np.ones(count, np.int64)
    way = np.where(parents >= 0, parents, -1)
    step = 1
    while step <= longest and (way >= 0).any():
        rising = way >= 0
        # Sizes are far below the numbers that floats cannot hold.
        sizes = sizes + np.bincount(way[rising], sizes[rising], minlength=count).astype(np.int64)
        way = np.where(rising, way[np.maximum(way, 0)], -1)
        step *= 2
    return sizes
