"""Checks the types of a tree: which operand may stand where."""

from __future__ import annotations

from collections.abc import Callable

from frazil.query.promql.function_table import FUNCTIONS
from frazil.query.promql.parse.regex import matches_empty
from frazil.query.promql.parse.tokens import AGGREGATORS_WITH_PARAMETER, COMPARISONS, SET_OPERATORS
from frazil.query.promql.parse.tree import (
    Aggregate,
    Binary,
    Call,
    Matcher,
    MatrixSelector,
    Node,
    Subquery,
    Unary,
    VectorSelector,
)
from frazil.query.promql.types import ValueType

Fail = Callable[[str, int], Exception]


def check_types(node: Node, fail: Fail, info_argument: bool = False) -> None:
    """Raises what `fail` makes of the first thing that is wrong; operands come before what uses them."""
    if isinstance(node, Aggregate):
        check_aggregate(node, fail)
    elif isinstance(node, Binary):
        check_types(node.left, fail)
        check_types(node.right, fail)
        check_binary(node, fail)
    elif isinstance(node, Call):
        check_call(node, fail)
    elif isinstance(node, VectorSelector):
        if not info_argument and all(accepts_empty(m) for m in node.all_matchers):
            raise fail("vector selector must contain at least one non-empty matcher", node.start)
    elif isinstance(node, Unary):
        check_types(node.expression, fail)
        if node.type not in (ValueType.SCALAR, ValueType.VECTOR):
            raise fail(
                "unary expression only allowed on expressions of type scalar or instant vector, "
                f'got "{node.type.value}"',
                node.start,
            )
    elif isinstance(node, Subquery):
        check_types(node.expression, fail)
        if node.expression.type != ValueType.VECTOR:
            got = node.expression.type.internal
            raise fail(f"subquery is only allowed on instant vector, got {got} instead", node.start)
    elif isinstance(node, MatrixSelector):
        check_types(node.selector, fail)
    else:
        for child in node.children():
            check_types(child, fail)


def accepts_empty(matcher: Matcher) -> bool:
    """Whether a series without the label matches."""
    if matcher.op in ("=", "!="):
        return (matcher.value == "") == (matcher.op == "=")
    return matches_empty(matcher.value) == (matcher.op == "=~")


def expect(node: Node, wanted: ValueType, context: str, fail: Fail) -> None:
    if node.type != wanted:
        raise fail(f"expected type {wanted.value} in {context}, got {node.type.value}", node.start)


def check_aggregate(node: Aggregate, fail: Fail) -> None:
    check_types(node.expression, fail)
    expect(node.expression, ValueType.VECTOR, "aggregation expression", fail)
    if node.parameter is not None and node.op in AGGREGATORS_WITH_PARAMETER:
        check_types(node.parameter, fail)
        wanted = ValueType.STRING if node.op == "count_values" else ValueType.SCALAR
        expect(node.parameter, wanted, "aggregation parameter", fail)


def check_call(node: Call, fail: Fail) -> None:
    signature = FUNCTIONS[node.function]
    got = len(node.arguments)
    text = None
    if signature.variadic == 0 and got != signature.least:
        text = f"expected {signature.least} argument(s)"
    elif got < signature.least:
        text = f"expected at least {signature.least} argument(s)"
    elif signature.most is not None and got > signature.most:
        text = f"expected at most {signature.most} argument(s)"
    if text:
        raise fail(f'{text} in call to "{node.function}", got {got}', node.start)
    for index, argument in enumerate(node.arguments):
        is_info = node.function == "info" and index == 1
        if is_info:
            if argument.type == ValueType.VECTOR and not isinstance(argument, VectorSelector):
                raise fail("expected label selectors only", argument.start)
            if isinstance(argument, VectorSelector) and argument.name:
                raise fail("expected label selectors only, got vector selector instead", argument.start)
        check_types(argument, fail, is_info)
        expect(argument, signature.argument(index), f'call to function "{node.function}"', fail)


def check_binary(node: Binary, fail: Fail) -> None:
    operands = (node.left, node.right)
    types = [operand.type for operand in operands]
    if node.bool_modifier and node.op not in COMPARISONS:
        raise fail("bool modifier can only be used on comparison operators", node.operator_at)
    scalars = all(t == ValueType.SCALAR for t in types)
    if node.op in COMPARISONS and not node.bool_modifier and scalars:
        raise fail("comparisons between scalars must use BOOL modifier", node.operator_at)
    grouped = node.matching is not None and node.matching.cardinality in ("one-to-many", "many-to-one")
    if node.op in SET_OPERATORS and grouped:
        raise fail(f'no grouping allowed for "{node.op}" operation', node.start)
    for operand in operands:
        if operand.type not in (ValueType.SCALAR, ValueType.VECTOR):
            raise fail("binary expression must contain only scalar and instant vector types", operand.start)
    filled = node.matching is not None and (
        node.matching.fill_left is not None or node.matching.fill_right is not None
    )
    if any(t != ValueType.VECTOR for t in types):
        if node.matching is not None and node.matching.labels:
            raise fail("vector matching only allowed between instant vectors", node.start)
        if filled:
            raise fail("filling in missing series only allowed between instant vectors", node.start)
        node.matching = None
    elif node.op in SET_OPERATORS and filled:
        raise fail("filling in missing series not allowed for set operators", node.start)
    if node.op in SET_OPERATORS and any(t == ValueType.SCALAR for t in types):
        raise fail(f'set operator "{node.op}" not allowed in binary scalar expression', node.start)
