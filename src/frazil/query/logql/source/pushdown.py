"""Turns what a query selects into a predicate for the scan. Rows that it leaves out cannot be wanted."""

from __future__ import annotations

from frazil.query.logql.blocks import Selection
from frazil.query.logql.line_patterns import filter_pattern
from frazil.query.logql.parse.log_tree import LineFilter, LineOperand, Matcher
from frazil.query.logql.regexes import anchored, matches_text
from frazil.query.logql.source.label_rules import SERVICE_NAME, LabelRules
from frazil.query.logql.source.rows_block import LINE_COLUMN
from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    Contains,
    IsNull,
    MapValue,
    Matches,
    Not,
    Or,
    Predicate,
    Term,
)

_BODY = Column(LINE_COLUMN)


def predicate_of(selection: Selection, rules: LabelRules) -> Predicate | None:
    parts = [part for matcher in selection.matchers if (part := _of_matcher(matcher, rules)) is not None]
    parts += [part for each in selection.line_filters if (part := _of_line_filter(each)) is not None]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _of_matcher(matcher: Matcher, rules: LabelRules) -> Predicate | None:
    if matcher.operator not in ("=", "=~") or _passes_empty(matcher):
        return None
    if matcher.name == SERVICE_NAME and rules.discover_services:
        if not rules.service_is_column:
            return None
        # Where the column is empty, the rules look at other labels.
        own = Column(SERVICE_NAME)
        return Or((_has_value(own, matcher), IsNull(own), Comparison(own, "==", "")))
    terms: list[Term] = [MapValue("resource_attributes", key) for key in rules.keys_of(matcher.name)]
    found = tuple(_has_value(term, matcher) for term in terms)
    return found[0] if len(found) == 1 else Or(found)


def _passes_empty(matcher: Matcher) -> bool:
    if matcher.operator == "=":
        return matcher.value == ""
    return matches_text("", anchored(matcher.value, newlines=True))


def _has_value(term: Term, matcher: Matcher) -> Predicate:
    if matcher.operator == "=":
        return Comparison(term, "==", matcher.value)
    return Matches(term, f"(?s:{matcher.value})", anchored=True)


def _of_line_filter(stage: LineFilter) -> Predicate | None:
    negative = stage.operator.startswith("!")
    parts: list[Predicate] = []
    for operand in stage.operands:
        part = _of_operand(stage.operator, operand, exactly=negative)
        if part is not None:
            parts.append(part)
        elif not negative:
            return None
    if not parts:
        return None
    some: Predicate = parts[0] if len(parts) == 1 else Or(tuple(parts))
    # A line that is null is an empty one for the language.
    return Or((Not(some), IsNull(_BODY))) if negative else Or((some, IsNull(_BODY)))


def _of_operand(operator: str, operand: LineOperand, *, exactly: bool) -> Predicate | None:
    """Returns what holds for all lines that fit, and with `exactly` for no others; None if nothing does."""
    if operand.is_address:
        return None
    if operator in ("|>", "!>"):
        literal = filter_pattern(operand.text).longest_literal
        return None if exactly or not literal else Contains(_BODY, literal)
    if operator in ("|~", "!~"):
        return Matches(_BODY, operand.text)
    return Contains(_BODY, operand.text) if operand.text else None
