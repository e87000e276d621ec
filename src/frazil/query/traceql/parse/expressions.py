"""Parses expressions over the fields of a span, by the precedence of their operators."""

from __future__ import annotations

from frazil.query.traceql.parse.folding import fold_binary, fold_unary
from frazil.query.traceql.parse.literals import LEAST, MOST
from frazil.query.traceql.parse.names import BARE_INTRINSICS, KINDS, STATUSES, Type
from frazil.query.traceql.parse.token_stream import TokenStream
from frazil.query.traceql.parse.tokens import (
    ATTRIBUTE,
    DURATION,
    FLOAT,
    IDENTIFIER,
    INTEGER,
    INTRINSIC,
    STRING,
    Token,
)
from frazil.query.traceql.parse.tree import Attribute, Binary, Expression, Field, Filter, Intrinsic, Static, Unary

PRECEDENCE = {
    **dict.fromkeys(("&&", "||"), 2),
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "=~", "!~"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 6),
    "^": 7,
}
_UNARY = {"-": 5, "!": 6}
"""What stands behind a unary operator belongs to it if it binds at least as tightly as this."""
_RIGHT = {"^"}
_LITERALS = {INTEGER: Type.INT, FLOAT: Type.FLOAT, DURATION: Type.DURATION, STRING: Type.STRING}
_EXTREMES = {"minInt": LEAST, "maxInt": MOST}


def parse_expression(tokens: TokenStream, least: int = 0) -> Expression:
    """Parses an expression whose operators bind at least as tightly as `least`."""
    tokens.descend()
    left = _operand(tokens)
    levels = 0
    while (power := PRECEDENCE.get(tokens.next.kind, -1)) >= least:
        operator = tokens.take()
        right = _right_side(tokens, operator, power if operator.kind in _RIGHT else power + 1)
        left = _binary(operator.kind, left, right)
        tokens.descend()
        levels += 1
    for _ in range(levels + 1):
        tokens.ascend()
    return left


def parse_filter(tokens: TokenStream) -> Filter:
    start = tokens.expect("{").start
    if tokens.takes("}"):
        return Filter(Static(Type.BOOLEAN, True, at=start), at=start)
    expression = parse_expression(tokens)
    tokens.expect("}")
    return Filter(expression, at=start)


def parse_fields(tokens: TokenStream) -> tuple[Field, ...]:
    """Parses attributes and intrinsics in parentheses."""
    tokens.expect("(")
    found = [parse_field(tokens)]
    while tokens.takes(","):
        found.append(parse_field(tokens))
    tokens.expect(")")
    return tuple(found)


def parse_field(tokens: TokenStream) -> Field:
    found = _field(tokens.next)
    if found is None:
        raise tokens.unexpected()
    tokens.take()
    return found


def parse_literal(token: Token) -> Static | None:
    """Returns the literal that a token is, or None."""
    if token.kind in _LITERALS:
        return Static(_LITERALS[token.kind], token.value, at=token.start)
    if token.kind in ("true", "false"):
        return Static(Type.BOOLEAN, token.kind == "true", at=token.start)
    if token.kind in STATUSES:
        return Static(Type.STATUS, token.kind, at=token.start)
    if token.kind in KINDS:
        return Static(Type.KIND, token.kind, at=token.start)
    if token.kind == IDENTIFIER and token.value in _EXTREMES:
        return Static(Type.INT, _EXTREMES[str(token.value)], at=token.start)
    return None


def _operand(tokens: TokenStream) -> Expression:
    token = tokens.take()
    if token.kind in _UNARY:
        operand = parse_expression(tokens, _UNARY[token.kind])
        folded = fold_unary(token.kind, operand, token.start) if isinstance(operand, Static) else None
        return folded or Unary(token.kind, operand, at=token.start)
    if token.kind == "(":
        inner = parse_expression(tokens)
        tokens.expect(")")
        return inner
    if token.kind == "nil":
        # Nil stands only beside = and !=, so that it is never part of anything else.
        operator = tokens.expect("=", "!=")
        right = _right_side(tokens, operator, PRECEDENCE["="] + 1)
        return Binary(operator.kind, Static(Type.NIL, None, at=token.start), right, at=token.start)
    literal = parse_literal(token) or _field(token)
    if literal is not None:
        return literal
    if token.kind == IDENTIFIER:
        raise tokens.error(f"unknown identifier: {token.value}", token)
    raise tokens.unexpected(token)


def _right_side(tokens: TokenStream, operator: Token, least: int) -> Expression:
    if operator.kind in ("=", "!=") and tokens.next.kind == "nil":
        return Static(Type.NIL, None, at=tokens.take().start)
    return parse_expression(tokens, least)


def _binary(symbol: str, left: Expression, right: Expression) -> Expression:
    folded = None
    if isinstance(left, Static) and isinstance(right, Static):
        folded = fold_binary(symbol, left, right, left.at)
    return folded or Binary(symbol, left, right, at=left.at)


def _field(token: Token) -> Field | None:
    if token.kind == ATTRIBUTE:
        return Attribute(token.scope, str(token.value), token.parent, at=token.start)
    if token.kind == INTRINSIC:
        return Intrinsic(str(token.value), at=token.start)
    return Intrinsic(token.kind, at=token.start) if token.kind in BARE_INTRINSICS else None
