"""Defines the tree of metric queries. Each node prints itself as LogQL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from frazil.query.logql.go_numbers import (
    format_float,
    format_go_duration,
    format_prometheus_duration,
    quoted,
)
from frazil.query.logql.parse.log_tree import NOWHERE, LabelFilter, LogQuery, Place

COMPARISONS = ("==", "!=", ">", ">=", "<", "<=")
SET_OPERATORS = ("and", "or", "unless")


@dataclass(frozen=True)
class Unwrap:
    """Takes the value of each sample from a label; the filters see whether that failed."""

    label: str
    conversion: Literal["", "bytes", "duration", "duration_seconds"] = ""
    filters: tuple[LabelFilter, ...] = ()

    def __str__(self) -> str:
        label = f"{self.conversion}({self.label})" if self.conversion else self.label
        return " ".join(map(str, (f"| unwrap {label}", *self.filters)))


@dataclass(frozen=True)
class LogRange:
    """Is the lines of the last `interval` before each step; a positive offset looks further back."""

    query: LogQuery
    interval_ns: int
    offset_ns: int = 0
    unwrap: Unwrap | None = None

    def __str__(self) -> str:
        text = f"{self.query} {self.unwrap}" if self.unwrap else str(self.query)
        offset = f" offset {format_go_duration(self.offset_ns)}" if self.offset_ns else ""
        return f"{text}[{format_prometheus_duration(self.interval_ns)}]{offset}"


@dataclass(frozen=True)
class Grouping:
    labels: tuple[str, ...]
    without: bool = False

    def __str__(self) -> str:
        return f"{'without' if self.without else 'by'} ({','.join(self.labels)})"


@dataclass(frozen=True)
class RangeAggregation:
    operation: str
    range: LogRange
    parameter: float | None = None
    grouping: Grouping | None = None
    place: Place = NOWHERE

    def __str__(self) -> str:
        parameter = f"{format_float(self.parameter)}," if self.parameter is not None else ""
        grouping = f" {self.grouping}" if self.grouping else ""
        return f"{self.operation}({parameter}{self.range}){grouping}"


@dataclass(frozen=True)
class VectorAggregation:
    operation: str
    expression: MetricQuery
    parameter: int | None = None
    grouping: Grouping | None = None
    place: Place = NOWHERE

    def __str__(self) -> str:
        parameter = f"{self.parameter}," if self.parameter is not None else ""
        grouping = f" {self.grouping}" if self.grouping else ""
        return f"{self.operation}{grouping}({parameter}{self.expression})"


@dataclass(frozen=True)
class VectorMatching:
    """Says which series of both sides belong together, and on which side several may belong to one."""

    labels: tuple[str, ...]
    on: bool
    many: Literal["", "left", "right"] = ""
    included: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{'on' if self.on else 'ignoring'} ({','.join(self.labels)})"
        # Loki has a blank where `group_left` or `group_right` would stand.
        text += f" group_{self.many}" if self.many else " "
        return f"{text} ({','.join(self.included)})" if self.many and self.included else text


@dataclass(frozen=True)
class BinaryOperation:
    operator: str
    left: MetricQuery
    right: MetricQuery
    return_bool: bool = False
    matching: VectorMatching | None = None
    place: Place = NOWHERE

    def __str__(self) -> str:
        words = [self.left, self.operator, "bool" if self.return_bool else "", self.matching or "", self.right]
        return f"({' '.join(filter(None, map(str, words)))})"


@dataclass(frozen=True)
class NumberLiteral:
    """Is a number. Operations on two numbers are numbers too, since they are worked out when a query is parsed."""

    value: float
    place: Place = NOWHERE

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "(0 / 0)"
        if math.isinf(self.value):
            return "(1e308 * 10)" if self.value > 0 else "(-1e308 * 10)"
        return format_float(self.value)


@dataclass(frozen=True)
class Vector:
    """Is one sample without labels at each step."""

    value: float
    place: Place = NOWHERE

    def __str__(self) -> str:
        fixed = f"{self.value:f}"
        return f"vector({fixed if float(fixed) == self.value else format_float(self.value)})"


@dataclass(frozen=True)
class LabelReplace:
    expression: MetricQuery
    target: str
    replacement: str
    source: str
    pattern: str
    place: Place = NOWHERE

    def __str__(self) -> str:
        texts = map(quoted, (self.target, self.replacement, self.source, self.pattern))
        return f"label_replace({self.expression},{','.join(texts)})"


MetricQuery: TypeAlias = (
    RangeAggregation | VectorAggregation | BinaryOperation | NumberLiteral | Vector | LabelReplace
)
Query: TypeAlias = LogQuery | MetricQuery
