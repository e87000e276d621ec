"""Makes of a query those that bind every selector to a time, so that the result must not depend on the moment."""

from __future__ import annotations

import re

from frazil.query.promql.parse import parse
from frazil.query.promql.parse.tree import Call, Node, Subquery, VectorSelector

CONTEXT = re.compile(r"\b(start|end|range|step)\s*\(\s*\)")
UNSTEADY = frozenset(
    [
        *("days_in_month", "day_of_month", "day_of_week", "day_of_year", "end", "hour", "minute", "month"),
        *("predict_linear", "range", "start", "step", "time", "timestamp", "year"),
    ]
)


def asks_for_context(query: str) -> bool:
    """Whether the query asks for the range it is evaluated over."""
    return CONTEXT.search(query) is not None


def variants(query: str, moment: int) -> list[tuple[str, int]]:
    """Returns the bound query with the moments at which it is to give the same."""
    tree = parse(query)
    if not bind(tree, moment / 1000, False):
        return []
    moments = [-10 * moment, 0, int(moment / 5), moment, 10 * moment] if moment else [-1000, 0, 1000]
    return [(str(tree), at) for at in moments]


def bind(node: Node, seconds: float, bound: bool) -> bool:
    """Binds selectors and subqueries that are not bound; returns False if the value depends on the moment anyway."""
    if isinstance(node, Call) and node.function in UNSTEADY and not bound:
        return False
    if isinstance(node, VectorSelector | Subquery) and not bound:
        if node.at is None:
            node.at = seconds
        bound = isinstance(node, Subquery)
    return all(bind(child, seconds, bound) for child in node.children())
