"""Turns an expression into a predicate that a scan can use to leave files and rows out.

The predicate is true wherever the expression is, and perhaps elsewhere: types are judged later, span by span.
"""

from __future__ import annotations

from frazil.query.traceql.engine.comparing import turned
from frazil.query.traceql.engine.fields import ATTRIBUTE_COLUMNS, ELEMENT_KINDS, is_service_name
from frazil.query.traceql.parse.names import KINDS, STATUSES, Type
from frazil.query.traceql.parse.tree import Attribute, Binary, Expression, Intrinsic, Static
from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    IsNull,
    MapValue,
    Matches,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
)

_OPERATORS = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def predicate_of(node: Expression) -> Predicate | None:
    """Returns None where nothing can be left out."""
    if not isinstance(node, Binary):
        return None
    if node.operator in ("&&", "||"):
        sides = (predicate_of(node.left), predicate_of(node.right))
        known = tuple(side for side in sides if side is not None)
        if node.operator == "||":
            return Or(known) if len(known) == 2 else None
        return And(known) if len(known) == 2 else known[0] if known else None
    symbol, field, literal = node.operator, node.left, node.right
    if isinstance(field, Static):
        symbol, field, literal = turned(symbol), literal, field
    if not isinstance(literal, Static):
        return None
    if isinstance(field, Intrinsic):
        return _of_intrinsic(symbol, field.name, literal)
    return _of_attribute(symbol, field, literal) if isinstance(field, Attribute) else None


def _of_intrinsic(symbol: str, name: str, literal: Static) -> Predicate | None:
    match name, literal.type:
        case "name", Type.STRING if literal.value:
            return _of_text(symbol, Column("name"), str(literal.value))
        case "status", Type.STATUS if symbol == "=" and literal.value != "unset":
            return Comparison(Column("status_code"), "==", STATUSES.index(str(literal.value)))
        case "kind", Type.KIND if symbol == "=" and literal.value != "unspecified":
            return Comparison(Column("kind"), "==", KINDS.index(str(literal.value)))
        case "duration", Type.DURATION | Type.INT if symbol in (">", ">=", "="):
            # A null counts as no time at all.
            assert isinstance(literal.value, int)
            positive = literal.value > 0 or (literal.value == 0 and symbol == ">")
            operator = ">=" if symbol == "=" else _OPERATORS[symbol]
            return Comparison(Column("duration_nanos"), operator, literal.value) if positive else None  # type: ignore[arg-type]
    return None


def _of_attribute(symbol: str, field: Attribute, literal: Static) -> Predicate | None:
    terms = _terms(field)
    if terms is None:
        return None
    found = [_of_term(symbol, term, literal) for term in terms]
    known = tuple(each for each in found if each is not None)
    if len(known) < len(found):
        return None
    return known[0] if len(known) == 1 else Or(known)


def _terms(field: Attribute) -> list[Term] | None:
    if is_service_name(field):
        return [Column("service_name")]
    if field.scope in ELEMENT_KINDS:
        return None
    scopes = (field.scope,) if field.scope else ("span", "resource")
    return [MapValue(ATTRIBUTE_COLUMNS[scope], field.name) for scope in scopes]


def _of_term(symbol: str, term: Term, literal: Static) -> Predicate | None:
    match literal.type:
        case Type.NIL:
            return Not(IsNull(term)) if symbol == "!=" else None
        case Type.STRING if literal.value:
            found = _of_text(symbol, term, str(literal.value))
            # An array fits if one of its elements does; it is stored as JSON.
            return None if found is None else Or((found, StartsWith(term, "["))) if _may_be_array(term) else found
        case Type.BOOLEAN if symbol == "=":
            return Or((Comparison(term, "==", str(literal)), StartsWith(term, "[")))
        case Type.INT if symbol == "=":
            return Or((Comparison(term, "==", str(literal.value)), Matches(term, r"^\[|\.|e|E")))
    return Not(IsNull(term)) if isinstance(term, MapValue) else None


def _may_be_array(term: Term) -> bool:
    return isinstance(term, MapValue)


def _of_text(symbol: str, term: Term, text: str) -> Predicate | None:
    if symbol == "=~":
        # An expression that matches the empty text fits where nothing is stored.
        return None if not isinstance(term, MapValue) else Matches(term, f"(?s:{text})", anchored=True)
    if symbol == "=":
        return Comparison(term, "==", text)
    return Not(IsNull(term)) if isinstance(term, MapValue) else None
