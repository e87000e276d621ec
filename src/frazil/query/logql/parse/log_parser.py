"""Parses log queries: a selector and its stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from frazil.query.logql.parse.checks import check_selector, check_stage
from frazil.query.logql.parse.label_conditions import parse_condition
from frazil.query.logql.parse.log_tree import (
    ChosenLabel,
    Decolorize,
    DropLabels,
    Extraction,
    JsonParser,
    KeepLabels,
    LabelFilter,
    LabelFormat,
    LabelFormatItem,
    LineFilter,
    LineFormat,
    LineOperand,
    LineOperator,
    LogfmtParser,
    LogQuery,
    Matcher,
    MatchOperator,
    PatternParser,
    Place,
    RegexpParser,
    Selector,
    Stage,
    UnpackParser,
)
from frazil.query.logql.parse.token_stream import TokenStream
from frazil.query.logql.parse.tokens import FLAG, IDENTIFIER, STRING

_MATCH_OPERATORS = ("=", "=~", "!~", "!=")
_LINE_OPERATORS = ("|=", "|~", "|>", "!=", "!~", "!>")
LABEL_FILTER_STARTS = (IDENTIFIER, "(")


def parse_log_query(tokens: TokenStream) -> LogQuery:
    place = tokens.place
    return LogQuery(parse_selector(tokens), parse_stages(tokens), place)


def parse_selector(tokens: TokenStream) -> Selector:
    place = tokens.place
    tokens.expect("{")
    matchers: list[Matcher] = []
    if not tokens.accept("}"):
        matchers.append(_matcher(tokens, IDENTIFIER, "}"))
        while not tokens.accept("}"):
            if not tokens.accept(","):
                raise tokens.unexpected("}", ",")
            matchers.append(_matcher(tokens, IDENTIFIER))
    selector = Selector(tuple(matchers), place)
    for matcher in matchers:
        check_selector(matcher)
    return selector


def _matcher(tokens: TokenStream, *expected: str) -> Matcher:
    place = tokens.place
    if tokens.next.kind != IDENTIFIER:
        raise tokens.unexpected(*expected)
    name = tokens.take().text
    operator = tokens.accept(*_MATCH_OPERATORS)
    if operator is None:
        raise tokens.unexpected(*_MATCH_OPERATORS)
    return Matcher(name, cast(MatchOperator, operator.kind), tokens.string(), place)


def parse_stages(tokens: TokenStream, *, may_unwrap: bool = False) -> tuple[Stage, ...]:
    """Reads stages up to what cannot be one, such as an `unwrap` where that may follow."""
    stages: list[Stage] = []
    while True:
        if tokens.next.kind in _LINE_OPERATORS:
            filters = _line_filters(tokens)
            for each in filters[:-1]:
                check_stage(each)
            stages += filters
        elif tokens.next.kind == "|" and not (may_unwrap and tokens.after_next.kind == "unwrap"):
            place = tokens.place
            tokens.take()
            if tokens.next.kind in LABEL_FILTER_STARTS:
                stages.append(LabelFilter(parse_condition(tokens), place))
            elif read := _STAGES.get(tokens.next.kind):
                tokens.take()
                stages.append(read(tokens, place))
            else:
                raise tokens.unexpected()
        else:
            return tuple(stages)
        check_stage(stages[-1])


def _line_filters(tokens: TokenStream) -> list[Stage]:
    """Reads a filter. A negative one with several texts is as many filters."""
    place = tokens.place
    operator = cast(LineOperator, tokens.take().kind)
    operands = [_line_operand(tokens)]
    while tokens.accept("or"):
        operands.append(_line_operand(tokens))
    if operator.startswith("!"):
        return [LineFilter(operator, (operand,), place) for operand in operands]
    return [LineFilter(operator, tuple(operands), place)]


def _line_operand(tokens: TokenStream) -> LineOperand:
    if tokens.next.kind == STRING:
        return LineOperand(tokens.take().text)
    if not tokens.accept("ip"):
        raise tokens.unexpected(STRING, "ip")
    tokens.expect("(")
    operand = LineOperand(tokens.string(), is_address=True)
    tokens.expect(")")
    return operand


def _json(tokens: TokenStream, place: Place) -> Stage:
    return JsonParser(_extractions(tokens), place)


def _logfmt(tokens: TokenStream, place: Place) -> Stage:
    flags = set()
    while flag := tokens.accept(FLAG):
        flags.add(flag.text)
    extractions = _extractions(tokens)
    return LogfmtParser("--strict" in flags, "--keep-empty" in flags, extractions, place)


def _extractions(tokens: TokenStream) -> tuple[Extraction, ...]:
    found: list[Extraction] = []
    if tokens.next.kind != IDENTIFIER:
        return ()
    while True:
        label = tokens.expect(IDENTIFIER).text
        found.append(Extraction(label, tokens.string() if tokens.accept("=") else label))
        if not tokens.accept(","):
            return tuple(found)


def _label_format(tokens: TokenStream, place: Place) -> Stage:
    items: list[LabelFormatItem] = []
    while True:
        label = tokens.expect(IDENTIFIER).text
        tokens.expect("=")
        if tokens.next.kind not in (IDENTIFIER, STRING):
            raise tokens.unexpected(IDENTIFIER, STRING)
        source = tokens.take()
        items.append(LabelFormatItem(label, source.text, source.kind == STRING))
        if not tokens.accept(","):
            return LabelFormat(tuple(items), place)


def _chosen_labels(tokens: TokenStream) -> tuple[ChosenLabel, ...]:
    found: list[ChosenLabel] = []
    while True:
        place = tokens.place
        name = tokens.expect(IDENTIFIER).text
        if operator := tokens.accept(*_MATCH_OPERATORS):
            matcher = Matcher(name, cast(MatchOperator, operator.kind), tokens.string(), place)
            found.append(ChosenLabel(name, matcher))
        else:
            found.append(ChosenLabel(name))
        if not tokens.accept(","):
            return tuple(found)


_STAGES: dict[str, Callable[[TokenStream, Place], Stage]] = {
    "json": _json,
    "logfmt": _logfmt,
    "regexp": lambda tokens, place: RegexpParser(tokens.string(), place),
    "pattern": lambda tokens, place: PatternParser(tokens.string(), place),
    "unpack": lambda tokens, place: UnpackParser(place),
    "line_format": lambda tokens, place: LineFormat(tokens.string(), place),
    "label_format": _label_format,
    "decolorize": lambda tokens, place: Decolorize(place),
    "drop": lambda tokens, place: DropLabels(_chosen_labels(tokens), place),
    "keep": lambda tokens, place: KeepLabels(_chosen_labels(tokens), place),
}
