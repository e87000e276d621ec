"""Parses the conditions of label filters."""

from __future__ import annotations

from typing import cast

from frazil.query.logql.go_numbers import parse_float
from frazil.query.logql.parse.log_tree import (
    AddressFilter,
    BothFilters,
    BytesFilter,
    Comparator,
    DurationFilter,
    EitherFilter,
    LabelCondition,
    Matcher,
    MatchOperator,
    NumberFilter,
    TextFilter,
)
from frazil.query.logql.parse.token_stream import TokenStream
from frazil.query.logql.parse.tokens import BYTES, DURATION, IDENTIFIER, NUMBER, STRING, error

_STRENGTH = {"or": 1, "and": 2}
_COMPARATORS = ("=", "==", "!=", ">", ">=", "<", "<=")


def parse_condition(tokens: TokenStream, strength: int = 0) -> LabelCondition:
    """Reads a condition up to an operator that binds no stronger than `strength`.

    A comma, or nothing at all between two conditions, is an `and` that takes all that follows it.
    """
    left = _single(tokens)
    operators = 0
    while True:
        tokens.check_row(operators)
        operators += 1
        kind = tokens.next.kind
        if kind in _STRENGTH:
            if _STRENGTH[kind] <= strength:
                return left
            tokens.take()
            right = tokens.nested(lambda kind=kind: parse_condition(tokens, _STRENGTH[kind]))  # type: ignore[misc]
            left = BothFilters(left, right) if kind == "and" else EitherFilter(left, right)
        elif kind in (",", IDENTIFIER, "("):
            tokens.accept(",")
            left = BothFilters(left, tokens.nested(lambda: parse_condition(tokens)))
        else:
            return left


def _single(tokens: TokenStream) -> LabelCondition:
    if tokens.accept("("):
        inner = tokens.nested(lambda: parse_condition(tokens))
        if not tokens.accept(")"):
            raise tokens.unexpected()
        return inner
    place = tokens.place
    name = tokens.expect(IDENTIFIER, "(").text
    operator = tokens.next.kind
    if operator in ("=~", "!~"):
        tokens.take()
        return TextFilter(Matcher(name, cast(MatchOperator, operator), tokens.string(), place))
    if operator not in _COMPARATORS:
        raise tokens.unexpected()
    tokens.take()
    if operator in ("=", "!="):
        if tokens.next.kind == STRING:
            return TextFilter(Matcher(name, cast(MatchOperator, operator), tokens.take().text, place))
        if tokens.accept("ip"):
            tokens.expect("(")
            pattern = tokens.string()
            tokens.expect(")")
            return AddressFilter(name, "=" if operator == "=" else "!=", pattern)
    return _compared(tokens, name, cast(Comparator, "==" if operator == "=" else operator))


def _compared(tokens: TokenStream, name: str, comparator: Comparator) -> LabelCondition:
    if tokens.next.kind == DURATION:
        return DurationFilter(name, comparator, tokens.take().value)
    if tokens.next.kind == BYTES:
        return BytesFilter(name, comparator, tokens.take().value)
    return NumberFilter(name, comparator, signed_number(tokens))


def signed_number(tokens: TokenStream) -> float:
    sign = tokens.accept("+", "-")
    if tokens.next.kind != NUMBER:
        raise tokens.unexpected(*([NUMBER] if sign else []))
    text = ("-" if sign and sign.kind == "-" else "") + tokens.take().text
    return float_of(text)


def float_of(text: str) -> float:
    lower = text.lower()
    try:
        if lower.lstrip("-").startswith("0o"):
            raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax')
        return parse_float(text)
    except ValueError as wrong:
        raise error(f"unable to parse literal as a float: {wrong}") from None
