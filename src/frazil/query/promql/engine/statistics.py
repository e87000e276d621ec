"""Finds selectors of whose histograms only count and sum are used."""

from __future__ import annotations

from frazil.query.promql.parse.tokens import TRIMS
from frazil.query.promql.parse.tree import Binary, Call, Node, Subquery, VectorSelector

ENOUGH = frozenset(["histogram_count", "histogram_sum", "histogram_avg"])
NEEDS_BUCKETS = frozenset(
    ["histogram_quantile", "histogram_quantiles", "histogram_fraction", "histogram_stddev", "histogram_stdvar"]
)


def stats_only_selectors(root: Node) -> set[int]:
    """Returns the selectors (by `id`) under such functions, with nothing around that needs buckets."""
    found: set[int] = set()

    def visit(node: Node, path: tuple[Node, ...]) -> None:
        if isinstance(node, VectorSelector) and skips_buckets(path):
            found.add(id(node))
        for child in node.children():
            visit(child, (*path, node))

    visit(root, ())
    return found


def skips_buckets(path: tuple[Node, ...]) -> bool:
    skips = False
    for node in reversed(path):
        if isinstance(node, Subquery) or (isinstance(node, Binary) and node.op in TRIMS):
            return False
        if isinstance(node, Call):
            if node.function in NEEDS_BUCKETS:
                return False
            skips |= node.function in ENOUGH
    return skips
