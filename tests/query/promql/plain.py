"""Computes functions over windows one sample at a time: slow, plain, and what the kernels must agree with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

Window = Sequence[tuple[int, float]]


def compensated(values: Sequence[float]) -> tuple[float, float]:
    total, lost = values[0], 0.0
    for value in values[1:]:
        grown = total + value
        if math.isinf(grown):
            lost = 0.0
        elif abs(total) >= abs(value):
            lost += (total - grown) + value
        else:
            lost += (value - grown) + total
        total = grown
    return total, lost


def total(window: Window) -> float:
    found, lost = compensated([value for _, value in window])
    return found if math.isinf(found) else found + lost


def mean(window: Window) -> float:
    found, lost = compensated([value for _, value in window])
    return found if math.isinf(found) else found / len(window) + lost / len(window)


def least(window: Window) -> float:
    return min((value for _, value in window if value == value), default=math.nan)


def greatest(window: Window) -> float:
    return max((value for _, value in window if value == value), default=math.nan)


def quantile(window: Window, q: float) -> float:
    values = sorted((value for _, value in window), key=lambda v: (v == v, v))
    rank = q * (len(values) - 1)
    below, above = math.floor(rank), min(math.floor(rank) + 1, len(values) - 1)
    weight = rank - math.floor(rank)
    return values[below] * (1 - weight) + values[above] * weight


def variance(window: Window) -> float:
    values = [value for _, value in window]
    if not all(map(math.isfinite, values)):
        return math.nan
    middle = math.fsum(values) / len(values)
    return math.fsum((value - middle) ** 2 for value in values) / len(values)


def resets(window: Window) -> float:
    return sum(after < before for (_, before), (_, after) in itertools.pairwise(window))


def changes(window: Window) -> float:
    pairs = itertools.pairwise(window)
    return sum(a != b and not (a != a and b != b) for (_, a), (_, b) in pairs)


def growth(window: Window, begin: int, end: int, counter: bool, per_second: bool) -> float | None:
    if len(window) < 2:
        return None
    (first_time, first), (last_time, last) = window[0], window[-1]
    found = last - first
    if counter:
        for (_, before), (_, after) in itertools.pairwise(window):
            found += before if after < before else 0.0
    sampled = (last_time - first_time) / 1000
    average = sampled / (len(window) - 1)
    to_start, to_end = (first_time - begin) / 1000, (end - last_time) / 1000
    to_start = average / 2 if to_start >= average * 1.1 else to_start
    to_end = average / 2 if to_end >= average * 1.1 else to_end
    if counter and found > 0 and first >= 0:
        to_start = min(to_start, sampled * (first / found))
    factor = (sampled + to_start + to_end) / sampled
    return found * (factor / ((end - begin) / 1000) if per_second else factor)


FUNCTIONS: dict[str, Callable[[Window], float]] = {
    "sum_over_time": total,
    "avg_over_time": mean,
    "min_over_time": least,
    "max_over_time": greatest,
    "count_over_time": lambda window: float(len(window)),
    "first_over_time": lambda window: window[0][1],
    "last_over_time": lambda window: window[-1][1],
    "ts_of_last_over_time": lambda window: window[-1][0] / 1000,
    "resets": resets,
    "changes": changes,
}
