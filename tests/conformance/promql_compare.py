"""Compares answers with what a script expects, by the rules of Prometheus's runner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from frazil.query.promql.engine.query import Answer
from frazil.query.promql.histograms.histogram import Buckets, Histogram
from frazil.query.promql.histograms.text import print_histogram
from frazil.query.promql.types import ValueType
from tests.conformance.promql_script import Evaluate, Text
from tests.conformance.promql_series import Expected, Point

TOLERANCE = 1e-6
SMALLEST = 2.0**-1022
STALE_BITS = 0x7FF0000000000002
Labels = tuple[tuple[str, str], ...]


class Mismatch(Exception):
    """Raised when an answer is not what a script expects."""


@dataclass
class Points:
    """Is an answer as plain points by time."""

    type: ValueType
    ranged: bool
    series: list[tuple[Labels, dict[int, float | Histogram]]]
    scalar: float | None = None
    text: str | None = None

    @classmethod
    def of(cls, answer: Answer) -> Points:
        if answer.type == ValueType.STRING:
            return cls(answer.type, False, [], text=answer.text)
        times = answer.times.tolist()
        if answer.ranges is not None:
            found: list[tuple[Labels, dict[int, float | Histogram]]] = []
            rows = answer.ranges.labels.rows()
            for labels, floats, cells in zip(rows, answer.ranges.floats, answer.ranges.histograms, strict=True):
                points = dict(zip(floats.times.tolist(), floats.values.tolist(), strict=True))
                points |= dict(zip(cells.times.tolist(), cells.values.tolist(), strict=True))
                found.append((tuple(labels.items()), points))
            return cls(answer.type, True, found)
        if answer.scalar is not None:
            series = [((), dict(zip(times, answer.scalar.tolist(), strict=True)))]
            return cls(answer.type, len(times) > 1, series, scalar=float(answer.scalar[0]))  # type: ignore[arg-type]
        matrix = answer.matrix
        assert matrix is not None
        found = []
        for row, labels in enumerate(matrix.labels.rows()):
            points = {}
            for step, time in enumerate(times):
                if matrix.present[row, step]:
                    points[time] = float(matrix.values[row, step])
                elif matrix.cells is not None and matrix.cells[row, step] is not None:
                    points[time] = matrix.cells[row, step]
            found.append((tuple(labels.items()), points))
        return cls(answer.type, len(times) > 1, found)

    def only(self, moment: int, scalar: bool) -> Points:
        """Returns the points of one step of a range, as an instant query would."""
        if self.series != sorted(self.series, key=lambda s: s[0]):
            raise Mismatch("series are not sorted by labels")
        at = [(labels, {moment: points[moment]}) for labels, points in self.series if moment in points]
        if scalar:
            value = at[0][1][moment]
            assert isinstance(value, float)
            return Points(ValueType.SCALAR, False, [], scalar=value)
        return Points(ValueType.VECTOR, False, at)


def check_failure(command: Evaluate, message: str) -> None:
    for expected in command.expects.get("fail", []):
        if not expected.accepts(message):
            raise Mismatch(f"fails with {message!r}, not with {expected.text!r}")


def check_annotations(command: Evaluate, query: str, warnings: list[str], infos: list[str]) -> None:
    for kind, found, must in (("warn", warnings, command.must_warn), ("info", infos, command.must_inform)):
        if must and not found:
            raise Mismatch(f"{query}: no {kind}")
        check_kind(kind, command.expects.get(kind, []), found)
        if f"no_{kind}" in command.expects and found:
            raise Mismatch(f"{query}: unexpected {kind}: {found}")


def check_kind(kind: str, expected: list[Text], found: list[str]) -> None:
    if not expected:
        return
    if not found:
        raise Mismatch(f"no {kind}, where {expected[0].text!r} is expected")
    for text in expected:
        if not any(text.accepts(message) for message in found):
            raise Mismatch(f"no {kind} is {text.text!r}, but there is {found}")
    for message in found:
        if not any(text.accepts(message) for text in expected):
            raise Mismatch(f"unexpected {kind} {message!r}")


def check_result(command: Evaluate, points: Points) -> None:
    if command.text is not None:
        if points.text != command.text:
            raise Mismatch(f"expected {command.text!r}, got {points.text!r}")
        return
    if command.scalar is not None and not points.ranged:
        if points.scalar is None:
            raise Mismatch("expected a scalar")
        if not near(command.scalar, points.scalar):
            raise Mismatch(f"expected {command.scalar}, got {points.scalar}")
        return
    if points.type == ValueType.SCALAR and not points.ranged:
        raise Mismatch("got a scalar")
    expected = {tuple(sorted(labels.items())): values for labels, values in command.series}
    times = expected_times(command, points)
    seen = set()
    for position, (labels, found) in enumerate(points.series):
        if labels not in expected:
            raise Mismatch(f"unexpected series {dict(labels)}: {shown(found)}")
        seen.add(labels)
        check_series(labels, expected[labels], found, times)
        if command.ordered and list(expected)[position] != labels:
            raise Mismatch(f"{dict(labels)} at position {position}")
    for labels in expected:
        if labels not in seen:
            raise Mismatch(f"missing series {dict(labels)}")


def expected_times(command: Evaluate, points: Points) -> list[int] | None:
    """Returns the times of the expected points; None if it is the one there is."""
    if command.range is None:
        return None
    begin, end, step = command.range
    return list(range(begin, end + 1, step)) if step else [begin]


def check_series(
    labels: Labels, expected: list[Point], found: Mapping[int, float | Histogram], times: list[int] | None
) -> None:
    if times is None:
        if len(expected) != 1:
            raise ValueError("an instant query has one value for each series")
        times = list(found)
    if len(expected) > len(times):
        raise Mismatch(f"more points are expected of {dict(labels)} than there are steps")
    wanted = {time: value for time, value in zip(times, expected, strict=False) if value is not None}
    if set(wanted) != set(found):
        raise Mismatch(f"{dict(labels)} has {shown(found)}, expected {wanted}")
    for time, value in wanted.items():
        got = found[time]
        if isinstance(value, Expected):
            if not isinstance(got, Histogram) or not near_histogram(value, got):
                text = f"{print_histogram(value.histogram)} {value.histogram}"
                raise Mismatch(f"{dict(labels)} at {time}: expected {text}, got {shown({time: got})} {got}")
        elif isinstance(got, Histogram) or not near(value, got):
            raise Mismatch(f"{dict(labels)} at {time}: expected {value}, got {shown(found)}")


def shown(found: Mapping[int, float | Histogram]) -> str:
    return " ".join(f"{print_histogram(v) if isinstance(v, Histogram) else v}@{t}" for t, v in found.items())


def near(one: float, other: float) -> bool:
    bits = [int(np.float64(value).view(np.int64)) for value in (one, other)]
    if STALE_BITS in bits:
        return bits[0] == bits[1]
    if one == other or (math.isnan(one) and math.isnan(other)):
        return True
    if math.isinf(one) or math.isinf(other) or math.isnan(one) or math.isnan(other):
        return False
    size = abs(one) + abs(other)
    if one == 0 or other == 0 or size < SMALLEST:
        return abs(one - other) < TOLERANCE * SMALLEST
    return abs(one / 2 - other / 2) / (size / 2 if size < math.inf else abs(one)) < TOLERANCE


def near_side(one: Buckets, other: Buckets) -> bool:
    if not np.array_equal(one.indexes, other.indexes):
        return False
    return all(near(a, b) for a, b in zip(one.counts.tolist(), other.counts.tolist(), strict=True))


def near_histogram(expected: Expected, found: Histogram) -> bool:
    wanted, found = expected.histogram.compact(), found.compact()
    return (
        wanted.schema == found.schema
        and near(wanted.count, found.count)
        and near(wanted.sum, found.sum)
        and wanted.bounds == found.bounds
        and wanted.zero_threshold == found.zero_threshold
        and near(wanted.zero_count, found.zero_count)
        and near_side(wanted.positive, found.positive)
        and near_side(wanted.negative, found.negative)
        and (not expected.hinted or wanted.hint == found.hint)
    )
