"""Filters rows by their labels."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.logql.addresses import address_range
from frazil.query.logql.columns import Column, Mask, from_texts, used_codes
from frazil.query.logql.frame import ERROR, Frame
from frazil.query.logql.go_numbers import parse_bytes, parse_float, parse_go_duration
from frazil.query.logql.parse.log_tree import (
    AddressFilter,
    BothFilters,
    BytesFilter,
    DurationFilter,
    EitherFilter,
    LabelCondition,
    LabelFilter,
    Matcher,
    NumberFilter,
    TextFilter,
)
from frazil.query.logql.regexes import anchored, matches

FILTER_ERROR = "LabelFilterErr"

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def filter_labels(stage: LabelFilter, frame: Frame) -> Mask:
    """Keeps the rows that pass, and returns which those are."""
    passing = _passing(stage.condition, frame, np.ones(frame.rows, np.bool_))
    frame.filter(passing)
    return passing


def _passing(condition: LabelCondition, frame: Frame, asked: Mask) -> Mask:
    """Returns which rows pass, of those that are asked about. Only those can get an error."""
    match condition:
        case BothFilters(left, right):
            return _passing(left, frame, asked) & _passing(right, frame, asked)
        case EitherFilter(left, right):
            first = _passing(left, frame, asked)
            return first | _passing(right, frame, asked & ~first)
        case TextFilter(matcher):
            return matching(matcher, frame.label(matcher.name)) & asked
        case AddressFilter(name, sign, pattern):
            addresses = address_range(pattern)
            column = frame.label(name)
            inside = column.by_text(addresses.in_text, absent=False)
            passing = inside if sign == "=" else ~inside
            return asked & ((passing & column.present) | frame.failed)
        case NumberFilter(name, comparator, value):
            return _compared(frame, name, parse_float, comparator, value, asked)
        case DurationFilter(name, comparator, nanoseconds):
            return _compared(frame, name, parse_go_duration, comparator, nanoseconds, asked)
        case BytesFilter(name, comparator, size):
            return _compared(frame, name, parse_bytes, comparator, size, asked)


def matching(matcher: Matcher, column: Column) -> Mask:
    """Returns which rows have a value that matches; an absent one counts as empty."""
    test = _test(matcher)
    return column.mapped(test, bool(test(pa.array([""]))[0].as_py()))


def _test(matcher: Matcher) -> Callable[[pa.Array], pa.Array]:
    value = matcher.value
    match matcher.operator:
        case "=":
            return lambda texts: pc.equal(texts, value)
        case "!=":
            return lambda texts: pc.not_equal(texts, value)
        case "=~":
            return lambda texts: matches(texts, anchored(value))
        case _:
            return lambda texts: pc.invert(matches(texts, anchored(value)))


@dataclass(frozen=True)
class _Told:
    """Says of each distinct text whether it passes, and what is wrong with it."""

    passes: Mask
    faults: list[str | None]


def _compared(
    frame: Frame, name: str, parse: Callable[[str], float], comparator: str, value: float, asked: Mask
) -> Mask:
    """Returns which rows have such a value. A value that cannot be read passes, with an error."""
    column = (
        frame.label(name) if name != ERROR else Column(np.full(frame.rows, -1, np.int32), pa.array([], pa.string()))
    )
    told = _told(column, parse, _COMPARE[comparator], value)
    passing = np.append(told.passes, False)[column.codes] & asked
    if any(told.faults):
        wrong = np.append([fault is not None for fault in told.faults], False)[column.codes] & asked
        if wrong.any():
            details = from_texts(told.faults)
            codes = np.append(details.codes, -1)[column.codes].astype(np.int32)
            frame.fail(wrong, FILTER_ERROR, Column(codes, details.values), first_stays=True)
    return passing


def _told(
    column: Column, parse: Callable[[str], float], compare: Callable[[float, float], bool], value: float
) -> _Told:
    passes = np.zeros(len(column.values), np.bool_)
    faults: list[str | None] = [None] * len(column.values)
    texts = column.texts
    for code in used_codes(column.codes).tolist():
        try:
            passes[code] = compare(parse(texts[code]), value)
        except ValueError as wrong:
            passes[code] = True
            faults[code] = str(wrong)
    return _Told(passes, faults)
