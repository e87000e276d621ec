"""Has the arithmetic of metric queries, for two numbers and for whole arrays of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def _divided(left: Floats, right: Floats) -> Floats:
    return np.where(right == 0, np.nan, np.divide(left, right))


def _remainder(left: Floats, right: Floats) -> Floats:
    return np.where(right == 0, np.nan, np.fmod(left, right))


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _divided,
    "%": _remainder,
    "^": np.power,
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
}
"""Comparisons give truth, all others numbers. A zero divisor gives NaN, as LogQL has it."""


def operate(operator: str, left: float, right: float) -> float:
    """Returns the result for two numbers; that of a comparison is 0 or 1."""
    with np.errstate(all="ignore"):
        return float(OPERATIONS[operator](np.float64(left), np.float64(right)))
