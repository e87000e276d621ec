"""Shows the tree of a query as `parse_query` does."""

from __future__ import annotations

from typing import Any

from frazil.query.promql.function_table import FUNCTIONS
from frazil.query.promql.parse.literals import milliseconds, print_number
from frazil.query.promql.parse.tree import (
    METRIC_NAME,
    Aggregate,
    Binary,
    Call,
    Duration,
    DurationExpression,
    MatrixSelector,
    Node,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Timed,
    Unary,
    VectorSelector,
)

Json = dict[str, Any]


def tree(node: Node) -> Json:
    found = _fields(node)
    return dict(sorted(found.items()))


def _fields(node: Node) -> Json:
    match node:
        case Aggregate():
            parameter = None if node.parameter is None else tree(node.parameter)
            return {
                "type": "aggregation",
                "op": node.op,
                "expr": tree(node.expression),
                "param": parameter,
                "grouping": list(node.grouping),
                "without": node.without,
            }
        case Binary():
            return _binary(node)
        case Call():
            return {"type": "call", "func": _function(node.function), "args": [tree(each) for each in node.arguments]}
        case MatrixSelector():
            selector = _selector(node.selector)
            return {**selector, "type": "matrixSelector", **_duration("range", node.range)}
        case VectorSelector():
            return {**_selector(node), "type": "vectorSelector"}
        case Subquery():
            return {
                "type": "subquery",
                "expr": tree(node.expression),
                **_duration("range", node.range),
                **_duration("step", node.step),
                **_times(node),
            }
        case NumberLiteral():
            return {"type": "numberLiteral", "val": print_number(node.value)}
        case StringLiteral():
            return {"type": "stringLiteral", "val": node.value}
        case Paren():
            return {"type": "parenExpr", "expr": tree(node.expression)}
        case Unary():
            return {"type": "unaryExpr", "op": node.op, "expr": tree(node.expression)}
    raise AssertionError(f"{type(node).__name__} is no expression")


def _binary(node: Binary) -> Json:
    matching = None
    if node.matching is not None:
        given = node.matching
        matching = {
            "card": given.cardinality,
            "labels": list(given.labels),
            "on": given.on,
            "include": list(given.include),
            "fillValues": {"lhs": given.fill_left, "rhs": given.fill_right},
        }
    return {
        "type": "binaryExpr",
        "op": node.op,
        "lhs": tree(node.left),
        "rhs": tree(node.right),
        "bool": node.bool_modifier,
        "matching": matching,
    }


def _function(name: str) -> Json:
    signature = FUNCTIONS[name]
    return {
        "name": name,
        "argTypes": [kind.internal if kind.internal != "none" else "none" for kind in signature.arguments],
        "variadic": signature.variadic,
        "returnType": signature.returns.internal,
    }


def _selector(node: VectorSelector) -> Json:
    # The name that stands outside of the braces comes last.
    matchers = [{"name": each.name, "type": each.op, "value": each.value} for each in node.all_matchers]
    name = node.name or next((m.value for m in node.matchers if m.name == METRIC_NAME and m.op == "="), "")
    return {
        "name": name,
        "matchers": matchers,
        "anchored": node.anchored,
        "smoothed": node.smoothed,
        **_times(node),
    }


def _times(node: Timed) -> Json:
    fixed = None if node.at is None or isinstance(node.at, str) else round(node.at * 1000)
    return {
        **_duration("offset", node.offset),
        "timestamp": fixed,
        "startOrEnd": node.at if isinstance(node.at, str) else None,
    }


def _duration(name: str, given: Duration | None) -> Json:
    """Returns a duration in milliseconds, and its expression if it is computed."""
    if isinstance(given, DurationExpression):
        return {name: 0, f"{name}Expr": _duration_tree(given)}
    return {name: 0 if given is None else milliseconds(given.value), f"{name}Expr": None}


def _duration_tree(given: Duration | None) -> Json | None:
    if given is None:
        return None
    if isinstance(given, NumberLiteral):
        return {"duration": given.duration, "type": "numberLiteral", "val": print_number(given.value)}
    return {
        "lhs": _duration_tree(given.left),
        "op": given.op,
        "rhs": _duration_tree(given.right),
        "type": "durationExpr",
        "wrapped": given.wrapped,
    }
