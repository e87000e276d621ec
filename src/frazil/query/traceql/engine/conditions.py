"""Evaluates expressions over the fields of spans, for all spans at once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow.compute as pc

from frazil.query.traceql.engine.comparing import calculate, compare, compare_with, negate, turned
from frazil.query.traceql.engine.fields import element_kind, fields_of
from frazil.query.traceql.engine.spans import Elements, Spans
from frazil.query.traceql.engine.values import Bools, Column, Kind, Values
from frazil.query.traceql.errors import TraceQLUnsupported
from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.tree import Attribute, Binary, Expression, Field, Intrinsic, Static, Unary
from frazil.query.traceql.parse.type_rules import COMPARISON, LOGICAL

Rows: TypeAlias = Spans | Elements

_ZERO_LED = frozenset({"trace:id", "link:traceID"})
"""Literals for these are compared without leading zeros, because that is how results show ids of traces."""


class Condition:
    """Is an expression that is true or false for each span."""

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.exact = _compared_with_one_type(expression)
        """The attributes of which only values of their literal's type are looked at."""

    def test(self, spans: Spans) -> Bools:
        return self._test(self.expression, spans)

    def _test(self, node: Expression, rows: Rows) -> Bools:
        if isinstance(rows, Spans) and (kinds := _element_kinds(node)):
            return self._test_elements(node, rows, kinds)
        match node:
            case Binary() if node.operator == "&&":
                return self._test(node.left, rows) & self._test(node.right, rows)
            case Binary() if node.operator == "||":
                return self._test(node.left, rows) | self._test(node.right, rows)
            case Binary() if node.operator in COMPARISON:
                return self._compare(node, rows)
            case Unary() if node.operator == "!" and _is_truth(node.operand):
                return ~self._test(node.operand, rows)
        values = self.value(node, rows)
        return _spread_bools(values, (values.values.kinds == Kind.BOOLEAN) & (values.values.ints != 0))

    def _test_elements(self, node: Expression, spans: Spans, kinds: set[str]) -> Bools:
        """Tells which spans have events or links that fit. What is joined by && must be true for the same one."""
        if isinstance(node, Binary) and node.operator == "||":
            return self._test(node.left, spans) | self._test(node.right, spans)
        if _is_nil_test(node, "="):
            assert isinstance(node, Binary)
            return ~self._test(Binary("!=", node.left, node.right), spans)
        found = np.ones(spans.count, bool)
        joined: dict[str, list[Expression]] = {}
        for each in _conjuncts(node):
            its_kinds = _element_kinds(each)
            if len(its_kinds) == 1:
                joined.setdefault(next(iter(its_kinds)), []).append(each)
            elif each is node:
                raise TraceQLUnsupported(f"a comparison of {' and '.join(sorted(kinds))} attributes ({node}) is")
            else:
                found &= self._test(each, spans)
        for kind, conditions in joined.items():
            if len(conditions) == 1 and conditions[0] is not node and _is_nil_test(conditions[0], "="):
                found &= self._test(conditions[0], spans)
                continue
            elements = spans.elements(kind)
            fits = np.ones(elements.count, bool)
            for each in conditions:
                fits &= self._test(each, elements)
            found &= elements.exists(fits)
        return found

    def _compare(self, node: Binary, rows: Rows) -> Bools:
        symbol, left, right = node.operator, node.left, node.right
        if isinstance(left, Static):
            symbol, left, right = turned(symbol), right, left
        column = self.value(left, rows)
        if not isinstance(right, Static):
            return compare(symbol, column.expanded(), self.value(right, rows).expanded())
        if right.type is Type.NIL:
            if isinstance(left, Static):
                return np.zeros(rows.count, bool)
            return column.known if symbol == "!=" else ~column.known
        exact = isinstance(left, Attribute) and left in self.exact
        return _spread_bools(column, compare_with(symbol, column.values, _as_shown(left, right), exact=exact))

    def value(self, node: Expression, rows: Rows) -> Column:
        """Returns the value of an expression for each row."""
        match node:
            case Static():
                return Column(Values.of_static(node), np.zeros(rows.count, np.int64))
            case Attribute() | Intrinsic():
                column = rows.column(node)
                return _without_zeros(column) if str(node) in _ZERO_LED else column
            case Unary() if node.operator == "-":
                operand = self.value(node.operand, rows)
                return Column(negate(operand.values), operand.codes)
            case Unary() if not _is_truth(node.operand):
                operand = self.value(node.operand, rows)
                known = operand.values.kinds == Kind.BOOLEAN
                return Column(Values.of_ints(operand.values.ints == 0, Kind.BOOLEAN, known), operand.codes)
            case Binary() if not _is_truth(node):
                left, right = self.value(node.left, rows).expanded(), self.value(node.right, rows).expanded()
                return Column(calculate(node.operator, left, right))
        return Column(Values.of_ints(self._test(node, rows), Kind.BOOLEAN))


def _spread_bools(column: Column, of_values: Bools) -> Bools:
    found: Bools = column.spread(of_values, False)
    return found


def _without_zeros(column: Column) -> Column:
    return Column(Values.of_texts(pc.utf8_ltrim(column.values.texts, "0")), column.codes)


def _as_shown(field: Expression, literal: Static) -> Static:
    if str(field) in _ZERO_LED and isinstance(literal.value, str):
        return Static(Type.STRING, literal.value.lstrip("0"))
    return literal


def _is_truth(node: Expression) -> bool:
    """Tells whether an expression is true or false whatever the values are."""
    match node:
        case Binary():
            return node.operator in LOGICAL | COMPARISON
        case Unary():
            return node.operator == "!" and _is_truth(node.operand)
    return False


def _is_nil_test(node: Expression, symbol: str) -> bool:
    if not isinstance(node, Binary) or node.operator != symbol:
        return False
    return any(isinstance(side, Static) and side.type is Type.NIL for side in (node.left, node.right))


def _conjuncts(node: Expression) -> list[Expression]:
    found: list[Expression] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Binary) and each.operator == "&&":
            waiting += [each.right, each.left]
        else:
            found.append(each)
    return found


def _element_kinds(node: Expression) -> set[str]:
    return {kind for field in fields_of(node) if (kind := element_kind(field)) is not None}


def _compared_with_one_type(expression: Expression) -> set[Field]:
    """Returns the attributes that are compared with literals of one type, and are used in no other way."""
    types: dict[Field, set[Type]] = {}
    mixed: set[Field] = set()
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        match node:
            case Binary() if node.operator in COMPARISON:
                field, literal = (node.right, node.left) if isinstance(node.left, Static) else (node.left, node.right)
                if isinstance(field, Attribute) and isinstance(literal, Static):
                    if literal.type is not Type.NIL:
                        types.setdefault(field, set()).add(literal.type)
                else:
                    mixed.update(fields_of(node.left), fields_of(node.right))
            case Binary() if node.operator in LOGICAL:
                waiting += [node.left, node.right]
            case Unary() if node.operator == "!":
                waiting.append(node.operand)
            case Unary() | Binary():
                mixed.update(fields_of(node))
    return {field for field, found in types.items() if len(found) == 1} - mixed
