"""Parses numbers that a query compares its metrics with."""

from __future__ import annotations

from frazil.query.traceql.parse.expressions import parse_literal
from frazil.query.traceql.parse.folding import fold_binary
from frazil.query.traceql.parse.names import NUMERIC, Type
from frazil.query.traceql.parse.token_stream import TokenStream
from frazil.query.traceql.parse.tree import Static

_PRECEDENCE = {"+": 0, "-": 0, "*": 1, "/": 1}


def parse_number(tokens: TokenStream) -> Static:
    """Parses a number or a duration, with or without a minus."""
    token = tokens.take()
    sign = 1
    if token.kind == "-":
        sign, token = -1, tokens.take()
    literal = parse_literal(token)
    if literal is None or literal.type not in NUMERIC:
        raise tokens.unexpected(token)
    assert isinstance(literal.value, int | float)
    return Static(literal.type, sign * literal.value, at=token.start)


def parse_constant(tokens: TokenStream, least: int = 0) -> Static:
    """Parses a number, or calculates one from several. There is no arithmetic with durations."""
    tokens.descend()
    if tokens.takes("("):
        left = parse_constant(tokens)
        tokens.expect(")")
    else:
        left = parse_number(tokens)
    while (power := _PRECEDENCE.get(tokens.next.kind, -1)) >= least:
        operator = tokens.next
        if left.type is Type.DURATION:
            raise tokens.unexpected()
        tokens.take()
        after = tokens.next
        right = parse_constant(tokens, power + 1)
        if right.type is Type.DURATION:
            raise tokens.unexpected(after)
        folded = fold_binary(operator.kind, left, right, left.at)
        if folded is None:
            raise tokens.error(f"{left} {operator.kind} {right} is no number", operator)
        left = folded
    tokens.ascend()
    return left
