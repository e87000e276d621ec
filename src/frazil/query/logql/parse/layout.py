"""Prints queries over several lines where one would be too long, as Loki lays them out."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.query.logql.go_numbers import format_float, format_prometheus_duration, quoted
from frazil.query.logql.parse.log_tree import LogQuery
from frazil.query.logql.parse.metric_tree import (
    BinaryOperation,
    Grouping,
    LabelReplace,
    LogRange,
    Query,
    RangeAggregation,
    VectorAggregation,
)

_WIDTH = 100


def laid_out(query: Query, level: int = 0) -> str:
    """Returns the text of the query, indented by so many levels."""
    text = str(query)
    margin = "  " * level
    if len(text) <= _WIDTH:
        return margin + text
    match query:
        case LogQuery():
            return _log_query(query, level)
        case RangeAggregation():
            parameter = [] if query.parameter is None else [format_float(query.parameter)]
            grouping = f" {_grouping(query.grouping)}" if query.grouping else ""
            return _call(query.operation, parameter, _log_range(query.range, level + 1), level) + grouping
        case VectorAggregation():
            count = [] if query.parameter is None else [str(query.parameter)]
            name = f"{query.operation} {_grouping(query.grouping)}" if query.grouping else query.operation
            return _call(name, count, laid_out(query.expression, level + 1), level)
        case LabelReplace():
            texts = map(quoted, (query.target, query.replacement, query.source, query.pattern))
            inner = [laid_out(query.expression, level + 1), *(f"{margin}  {text}" for text in texts)]
            return "\n".join((f"{margin}label_replace(", ",\n".join(inner), f"{margin})"))
        case BinaryOperation():
            words = [query.operator, "bool" if query.return_bool else "", str(query.matching or "")]
            operator = margin + " ".join(filter(None, words))
            return "\n".join((laid_out(query.left, level + 1), operator, laid_out(query.right, level + 1)))
        case _:
            return margin + text


def _call(name: str, parameters: Iterable[str], inner: str, level: int) -> str:
    margin = "  " * level
    lines = [f"{margin}{name}(", *(f"{margin}  {parameter}," for parameter in parameters), inner, f"{margin})"]
    return "\n".join(lines)


def _grouping(grouping: Grouping) -> str:
    return f"{'without' if grouping.without else 'by'} ({', '.join(grouping.labels)})"


def _log_query(query: LogQuery, level: int) -> str:
    margin = "  " * level
    if len(str(query)) <= _WIDTH:
        return margin + str(query)
    return "\n".join((f"{margin}{query.selector}", *(f"{margin}  {stage}" for stage in query.stages)))


def _log_range(log_range: LogRange, level: int) -> str:
    margin = "  " * level
    lines = [_log_query(log_range.query, level)]
    if unwrap := log_range.unwrap:
        label = f"{unwrap.conversion}({unwrap.label})" if unwrap.conversion else unwrap.label
        lines += [f"{margin}  {part}" for part in (f"| unwrap {label}", *unwrap.filters)]
    text = "\n".join(lines) + f" [{format_prometheus_duration(log_range.interval_ns)}]"
    if log_range.offset_ns:
        sign = "-" if log_range.offset_ns < 0 else ""
        text += f" offset {sign}{format_prometheus_duration(abs(log_range.offset_ns))}"
    return text
