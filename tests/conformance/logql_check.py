"""Compares answers of an engine with what cases expect."""

from __future__ import annotations

import math
import re

from frazil.errors import FrazilError
from frazil.query.logql.engine import Engine, Scalar
from frazil.query.logql.metrics.matrix import Matrix, SeriesLabels
from tests.conformance.logql_script import Case

_TOLERANCE = 1e-9


def failure_of(case: Case, engine: Engine, zero_ns: int) -> str:
    """Returns what is wrong with the engine's answer; an empty text if nothing is."""
    try:
        if len(case.times) == 1:
            answer = engine.instant(case.query, zero_ns + case.times[0])
            if isinstance(answer, Scalar):
                return _wrong_scalar(case, answer.value)
            matrix = answer.matrix
        else:
            start, end, step = case.times
            matrix = engine.range(case.query, zero_ns + start, zero_ns + end, step).matrix
    except FrazilError as error:
        return _wrong_error(case, str(error))
    if case.fails:
        return f"an error was expected: {case.message or case.pattern}"
    return _wrong_series(case, matrix)


def _wrong_scalar(case: Case, value: float) -> str:
    if case.fails:
        return f"an error was expected: {case.message or case.pattern}"
    if case.scalar is None or not _same(value, case.scalar):
        return f"expected {case.scalar}, got {value}"
    return ""


def _wrong_error(case: Case, error: str) -> str:
    if not case.fails:
        return f"unexpected error: {error}"
    if case.message and case.message not in error:
        return f"expected an error with {case.message!r}, got {error!r}"
    if case.pattern and not re.search(case.pattern, error):
        return f"expected an error like {case.pattern!r}, got {error!r}"
    return ""


def _wrong_series(case: Case, matrix: Matrix) -> str:
    found = [
        (labels, [float(value) if there else None for value, there in zip(values, present, strict=True)])
        for labels, values, present in zip(matrix.series, matrix.values, matrix.present, strict=True)
    ]
    expected = [(tuple(sorted(labels.items())), points) for labels, points in case.series]
    if case.scalar is not None:
        expected = [((), [case.scalar])]
    if case.empty or not expected:
        return f"expected nothing, got {found}" if found else ""
    if case.ordered and [labels for labels, _ in found] != [labels for labels, _ in expected]:
        return f"expected the order {[labels for labels, _ in expected]}, got {[labels for labels, _ in found]}"
    if len(found) != len(expected):
        return f"expected {len(expected)} series, got {len(found)}: {found}"
    by_labels: dict[SeriesLabels, list[float | None]] = dict(found)
    for labels, points in expected:
        if labels not in by_labels:
            return f"no series {dict(labels)} in {found}"
        got = by_labels[labels]
        if len(got) != len(points) or not all(map(_same, got, points)):
            return f"series {dict(labels)}: expected {points}, got {got}"
    return ""


def _same(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or math.isclose(left, right, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
