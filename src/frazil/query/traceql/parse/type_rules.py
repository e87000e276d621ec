"""Says which types go together, and what comes of them. Both folding and validation ask it."""

from __future__ import annotations

from frazil.query.traceql.parse.names import INTRINSICS, NUMERIC, Type
from frazil.query.traceql.parse.tree import Attribute, Binary, Expression, Intrinsic, Static, Unary

LOGICAL = frozenset({"&&", "||"})
EQUALITY = frozenset({"=", "!="})
ORDERING = frozenset({"<", "<=", ">", ">="})
REGEX = frozenset({"=~", "!~"})
ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "^"})
COMPARISON = EQUALITY | ORDERING | REGEX

_ALLOWED = {
    Type.BOOLEAN: LOGICAL | EQUALITY,
    Type.INT: ARITHMETIC | EQUALITY | ORDERING,
    Type.FLOAT: ARITHMETIC | EQUALITY | ORDERING,
    Type.DURATION: ARITHMETIC | EQUALITY | ORDERING,
    Type.STRING: COMPARISON,
    Type.STATUS: EQUALITY,
    Type.KIND: EQUALITY,
    Type.NIL: EQUALITY,
    Type.ATTRIBUTE: LOGICAL | COMPARISON | ARITHMETIC,
}


def type_of(node: Expression) -> Type:
    match node:
        case Static():
            return node.type
        case Attribute():
            return Type.ATTRIBUTE
        case Intrinsic():
            return INTRINSICS[node.name]
        case Unary():
            return Type.BOOLEAN if node.operator == "!" else type_of(node.operand)
        case Binary():
            return Type.BOOLEAN if node.operator in LOGICAL | COMPARISON else _number(node)


def _number(node: Binary) -> Type:
    left = type_of(node.left)
    return left if left is not Type.ATTRIBUTE else type_of(node.right)


def types_match(left: Type, right: Type) -> bool:
    if left is right or Type.ATTRIBUTE in (left, right) or Type.NIL in (left, right):
        return True
    return left in NUMERIC and right in NUMERIC


def operator_fits(operator: str, *types: Type) -> bool:
    return all(operator in _ALLOWED[each] for each in types)


def unary_fits(operator: str, kind: Type) -> bool:
    return kind is Type.ATTRIBUTE or (kind is Type.BOOLEAN if operator == "!" else kind in NUMERIC)
