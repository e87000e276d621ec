"""Is the one table of functions: name, types of the arguments, type of the result."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.query.promql.types import ValueType

V, S, M, T = ValueType.VECTOR, ValueType.SCALAR, ValueType.MATRIX, ValueType.STRING


@dataclass(frozen=True)
class Signature:
    """Says how a function is called."""

    name: str
    arguments: tuple[ValueType, ...]
    returns: ValueType = V
    variadic: int = 0
    """How many of the arguments may be left out or repeated: 0 none; n > 0: the last may be left out, or repeated up
    to n times; -1: the last may be left out or repeated without end."""
    experimental: bool = False
    keeps_name: bool = False
    """Whether the metric name stays, where the function alone decides it."""

    @property
    def least(self) -> int:
        return len(self.arguments) - (1 if self.variadic else 0)

    @property
    def most(self) -> int | None:
        if self.variadic < 0:
            return None
        return len(self.arguments) if self.variadic == 0 else self.least + self.variadic

    def argument(self, index: int) -> ValueType:
        return self.arguments[min(index, len(self.arguments) - 1)]


ELEMENT_WISE = (
    *("abs", "ceil", "floor", "exp", "sqrt", "ln", "log2", "log10", "sgn", "deg", "rad"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)
CALENDAR = (*("minute", "hour", "day_of_week", "day_of_month", "day_of_year", "days_in_month", "month", "year"),)
SIMPLE_HISTOGRAM = ("histogram_count", "histogram_sum", "histogram_avg", "histogram_stddev", "histogram_stdvar")
OVER_RANGE = (
    *("rate", "increase", "delta", "irate", "idelta", "resets", "changes", "deriv"),
    *("sum_over_time", "avg_over_time", "count_over_time", "min_over_time", "max_over_time", "present_over_time"),
    *("stddev_over_time", "stdvar_over_time", "absent_over_time"),
)

_ALL = [
    *(Signature(name, (V,)) for name in (*ELEMENT_WISE, *SIMPLE_HISTOGRAM, "timestamp", "absent")),
    *(Signature(name, (V,), variadic=1) for name in CALENDAR),
    *(Signature(name, (M,)) for name in OVER_RANGE),
    *(Signature(name, (M,), keeps_name=True) for name in ("first_over_time", "last_over_time")),
    Signature("mad_over_time", (M,), experimental=True),
    *(Signature(f"ts_of_{what}_over_time", (M,), experimental=True) for what in ("first", "last", "min", "max")),
    Signature("quantile_over_time", (S, M)),
    Signature("predict_linear", (M, S)),
    Signature("double_exponential_smoothing", (M, S, S), experimental=True),
    Signature("clamp", (V, S, S)),
    Signature("clamp_min", (V, S)),
    Signature("clamp_max", (V, S)),
    Signature("round", (V, S), variadic=1),
    Signature("time", (), S),
    Signature("pi", (), S),
    *(Signature(name, (), S, experimental=True) for name in ("start", "end", "range", "step")),
    *(Signature(name, (S, S), S, experimental=True) for name in ("min_of", "max_of")),
    Signature("scalar", (V,), S),
    Signature("vector", (S,)),
    Signature("sort", (V,), keeps_name=True),
    Signature("sort_desc", (V,), keeps_name=True),
    Signature("sort_by_label", (V, T), variadic=-1, experimental=True, keeps_name=True),
    Signature("sort_by_label_desc", (V, T), variadic=-1, experimental=True, keeps_name=True),
    Signature("label_replace", (V, T, T, T, T), keeps_name=True),
    Signature("label_join", (V, T, T, T), variadic=-1, keeps_name=True),
    Signature("info", (V, V), variadic=1, experimental=True, keeps_name=True),
    Signature("start_timestamp", (V,), experimental=True),
    Signature("histogram_quantile", (S, V)),
    Signature("histogram_quantiles", (V, T, S, S), variadic=9, experimental=True),
    Signature("histogram_fraction", (S, S, V)),
]
FUNCTIONS = {signature.name: signature for signature in _ALL}
