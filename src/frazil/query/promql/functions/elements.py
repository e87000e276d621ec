"""Evaluates functions that look at one element at a time: mathematics and the calendar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from frazil.query.promql.evaluation.matrix import Floats, Matrix, drop_names
from frazil.query.promql.histograms.histogram import Histogram, divide
from frazil.query.promql.histograms.quantiles import variance

Elementwise = Callable[[Floats], Floats]
DAY = 86400
# The days from March of the year in which Go begins to count to 1970.
FIRST_DAY = 719_162 + 292_277_022_400 // 400 * 146_097 + 306


def sign(values: Floats) -> Floats:
    return np.where(values < 0, -1.0, np.where(values > 0, 1.0, values))


def log2(values: Floats) -> Floats:
    """Returns logarithms as Go does, from fraction and exponent: near 1 they differ visibly from others."""
    fraction, exponent = np.frexp(values)
    return np.where(fraction == 0.5, exponent - 1.0, np.log(fraction) * (1 / np.log(2.0)) + exponent)


def log10(values: Floats) -> Floats:
    return np.asarray(log2(values) * (np.log(2.0) / np.log(10.0)))


FLOAT_FUNCTIONS: dict[str, Elementwise] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "ln": np.log,
    "log2": log2,
    "log10": log10,
    "sgn": sign,
    "deg": lambda v: v * 180 / np.pi,
    "rad": lambda v: v * np.pi / 180,
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{
        name: getattr(np, name.replace("a", "arc", 1)) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")
    },
}


def whole_seconds(values: Floats) -> np.typing.NDArray[np.int64]:
    """Returns seconds cut to whole ones, as Go converts floats: what does not fit is the least integer."""
    fits = np.abs(values) < 2**63
    return np.where(fits, np.where(fits, values, 0), -(2**63)).astype(np.int64)


def calendar(name: str, values: Floats) -> Floats:
    """Returns a part of the date, in UTC, that the values stand for in seconds since 1970."""
    # Go counts seconds from its own year 0 in 64 bits without a sign; what is NaN or too large wraps around there.
    absolute = whole_seconds(values).view(np.uint64) + np.uint64(FIRST_DAY * DAY)
    days = (absolute // np.uint64(DAY)).astype(np.int64) - FIRST_DAY
    inside = (absolute % np.uint64(DAY)).astype(np.int64)
    if name == "minute":
        return (inside // 60 % 60).astype(np.float64)
    if name == "hour":
        return (inside // 3600).astype(np.float64)
    if name == "day_of_week":
        return ((days + 4) % 7).astype(np.float64)
    year, month, day = civil(days)
    if name == "year":
        return year.astype(np.float64)
    if name == "month":
        return month.astype(np.float64)
    if name == "day_of_month":
        return day.astype(np.float64)
    if name == "day_of_year":
        return (days - days_from_civil(year, 1) + 1).astype(np.float64)
    after_year, after_month = np.where(month == 12, year + 1, year), np.where(month == 12, 1, month + 1)
    return (days_from_civil(after_year, after_month) - days_from_civil(year, month)).astype(np.float64)


Ints = np.typing.NDArray[np.int64]


def civil(days: Ints) -> tuple[Ints, Ints, Ints]:
    """Returns year, month and day of days since 1970, in the Gregorian calendar extended to all times."""
    shifted = days + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    part = (5 * of_year + 2) // 153
    month = np.where(part < 10, part + 3, part - 9)
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, of_year - (153 * part + 2) // 5 + 1


def days_from_civil(year: Ints, month: Ints | int) -> Ints:
    """Returns the first day of a month, as days since 1970."""
    month = np.asarray(month)
    year = year - (month <= 2)
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5
    return np.asarray(era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468)


def map_floats(matrix: Matrix, function: Elementwise, delayed: bool) -> Matrix:
    """Applies a function to all floats; histograms vanish."""
    with np.errstate(all="ignore"):
        values = np.asarray(function(matrix.values), np.float64)
    return drop_names(replace(matrix, values=values, cells=None).without_empty(), delayed)


def clamp(matrix: Matrix, low: Floats, high: Floats, delayed: bool) -> Matrix:
    """Bounds the values; a step whose bounds are crossed has no values."""
    wanted = np.broadcast_to(~(high < low), matrix.present.shape)
    inside = matrix.floats_only().where(wanted)
    return map_floats(inside, lambda values: greater(low, lesser(high, values)), delayed)


def greater(left: Floats, right: Floats) -> Floats:
    """Returns the greater value, as Go does: NaN beside anything but +Inf is NaN."""
    return np.where((left == np.inf) | (right == np.inf), np.inf, np.maximum(left, right))


def lesser(left: Floats, right: Floats) -> Floats:
    """Returns the lesser value, as Go does: NaN beside anything but -Inf is NaN."""
    return np.where((left == -np.inf) | (right == -np.inf), -np.inf, np.minimum(left, right))


def round_to(matrix: Matrix, nearest: Floats, delayed: bool) -> Matrix:
    """Rounds to multiples; ties go up."""
    with np.errstate(all="ignore"):
        inverse = 1.0 / nearest
    return map_floats(matrix, lambda v: np.floor(v * inverse + 0.5) / inverse, delayed)


def average(histogram: Histogram) -> float:
    return divide(histogram.sum, histogram.count)


def deviation(histogram: Histogram) -> float:
    found = variance(histogram)
    return float(np.sqrt(found)) if not found < 0 else float("nan")


HISTOGRAM_FUNCTIONS: dict[str, Callable[[Histogram], float]] = {
    "histogram_count": lambda h: h.count,
    "histogram_sum": lambda h: h.sum,
    "histogram_avg": average,
    "histogram_stddev": deviation,
    "histogram_stdvar": variance,
}


def map_histograms(matrix: Matrix, function: Callable[[Histogram], float], delayed: bool) -> Matrix:
    """Applies a function to all histograms; floats vanish."""
    values = np.zeros(matrix.values.shape)
    mask = matrix.histograms
    if matrix.cells is not None:
        for row, step in np.argwhere(mask):
            values[row, step] = function(matrix.cells[row, step])
    found = Matrix(matrix.labels, values, mask, None, matrix.dropped).without_empty()
    return drop_names(found, delayed, ("__name__",))
