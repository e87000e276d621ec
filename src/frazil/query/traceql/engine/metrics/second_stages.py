"""Cuts series down, and calculates with them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from frazil.query.traceql.engine.metrics.series import NAME, Label, Labels, Series, text, text_of
from frazil.query.traceql.engine.values import Floats
from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.tree import Limit, Static, Threshold

_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


def apply_stage(stage: Limit | Threshold, series: list[Series]) -> list[Series]:
    return _limited(stage, series) if isinstance(stage, Limit) else _compared(stage, series)


def _limited(stage: Limit, series: list[Series]) -> list[Series]:
    """Keeps at each step the largest or smallest values; of equal ones those whose labels come first."""
    if len(series) <= stage.limit:
        return series
    samples = np.stack([each.samples for each in series])
    by_labels = sorted(range(len(series)), key=lambda place: series[place].sort_key)
    ranks = np.empty(len(series), np.int64)
    ranks[by_labels] = np.arange(len(series))
    keys = -samples if stage.function == "topk" else samples
    order = np.lexsort((np.broadcast_to(ranks[:, None], samples.shape), keys), axis=0)
    kept = np.zeros(samples.shape, bool)
    np.put_along_axis(kept, order[: stage.limit], True, axis=0)
    found = [each.with_samples(np.where(its, each.samples, np.nan)) for each, its in zip(series, kept, strict=True)]
    return [each for each in found if not each.empty]


def _compared(stage: Threshold, series: list[Series]) -> list[Series]:
    limit = _number(stage.value)
    test = _TESTS[stage.operator]
    found = []
    for each in series:
        samples = np.where(test(each.samples, limit), each.samples, np.nan)
        exemplars = tuple(one for one in each.exemplars if test(one.value, limit))
        found.append(replace(each, samples=samples, exemplars=exemplars))
    return [each for each in found if not each.empty]


def calculate(symbol: str, left: list[Series] | Static, right: list[Series] | Static) -> list[Series]:
    """Calculates with the samples of series that have the same labels. Others vanish."""
    if isinstance(left, Static):
        assert isinstance(right, list)
        return [_with(each, _computed(symbol, _number(left), each.samples)) for each in right]
    if isinstance(right, Static):
        return [_with(each, _computed(symbol, each.samples, _number(right))) for each in left]
    pairs = _pairs(left, right)
    return [
        Series(_joined_labels(symbol, one, other), _computed(symbol, one.samples, other.samples))
        for one, other in pairs
    ]


def _with(series: Series, samples: Floats) -> Series:
    exemplars = tuple(each._replace(value=float(samples[each.step])) for each in series.exemplars)
    return replace(series, samples=samples, exemplars=exemplars)


def _pairs(left: list[Series], right: list[Series]) -> list[tuple[Series, Series]]:
    """A side that is a single series without labels goes with each series of the other."""
    if len(left) == 1 and not _own_labels(left[0]):
        return [(left[0], each) for each in right]
    if len(right) == 1 and not _own_labels(right[0]):
        return [(each, right[0]) for each in left]
    others = {frozenset(_own_labels(each)): each for each in right}
    found = [(each, others.get(frozenset(_own_labels(each)))) for each in left]
    return [(each, other) for each, other in found if other is not None]


def _own_labels(series: Series) -> Labels:
    return tuple(label for label in series.labels if label.key != NAME)


def _joined_labels(symbol: str, left: Series, right: Series) -> Labels:
    labels = _own_labels(left) or _own_labels(right)
    if labels:
        return labels
    names = [text_of(label.value) for each in (left, right) for label in each.labels if label.key == NAME]
    return (Label(NAME, text(f"({f' {symbol} '.join(names)})")),)


def _computed(symbol: str, left: Floats | float, right: Floats | float) -> Floats:
    with np.errstate(all="ignore"):
        found: Floats = _OPERATIONS[symbol](left, right)
    return found


def _number(value: Static) -> float:
    """Returns a number; a duration in seconds, as samples have it."""
    assert isinstance(value.value, int | float)
    return value.value / 1e9 if value.type is Type.DURATION else float(value.value)
