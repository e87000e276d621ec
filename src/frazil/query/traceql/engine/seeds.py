"""Finds what spans a trace must have to be an answer at all, so that other traces are not read.

A seed is an expression that is true for at least one span of each trace that a pipeline finds. It says nothing about
fields that only a whole trace has.
"""

from __future__ import annotations

from frazil.query.traceql.engine.fields import OF_TRACE, fields_of
from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.tree import (
    Binary,
    Expression,
    Filter,
    Intrinsic,
    Pipeline,
    Spanset,
    SpansetOperation,
    Static,
)

TRUE = Static(Type.BOOLEAN, True)


def seed_of(node: Spanset) -> Expression:
    match node:
        case Filter():
            return _without_traces(node.expression)
        case Pipeline():
            first = node.stages[0]
            return TRUE if not isinstance(first, Filter | SpansetOperation) else seed_of(first)
    right = seed_of(node.right)
    if node.operator == "||":
        left = seed_of(node.left)
        return TRUE if TRUE in (left, right) else Binary("||", left, right)
    # Of two seeds that must both be there, one is enough. What always holds is the worse one.
    return seed_of(node.left) if right == TRUE and node.operator[0] not in "!" else right


def _without_traces(node: Expression) -> Expression:
    if not needs_traces(node):
        return node
    if isinstance(node, Binary) and node.operator == "&&":
        left, right = _without_traces(node.left), _without_traces(node.right)
        if left == TRUE:
            return right
        return left if right == TRUE else Binary("&&", left, right)
    if isinstance(node, Binary) and node.operator == "||":
        left, right = _without_traces(node.left), _without_traces(node.right)
        return TRUE if TRUE in (left, right) else Binary("||", left, right)
    return TRUE


def needs_traces(node: Expression) -> bool:
    """Tells whether an expression is about more than a single span."""
    return any(isinstance(field, Intrinsic) and field.name in OF_TRACE for field in fields_of(node))
