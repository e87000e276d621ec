"""The kernels agree with a plain evaluator, on data that is as hostile as it comes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.query.promql.engine.query import Answer, query_range
from frazil.query.promql.parse.tree import Matcher
from frazil.query.promql.series.labels import LabelTable
from frazil.query.promql.series.memory import MemorySource
from frazil.query.promql.series.source import Hints, Samples, SeriesBlock
from tests.query.promql import plain

VALUES = st.one_of(
    st.floats(-100, 100),
    st.integers(-3, 3).map(float),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e18, -1e18, 1e18 + 256, 1e-9, 0.0, -0.0]),
)
SERIES = st.lists(st.tuples(st.integers(1, 40), VALUES), min_size=1, max_size=30)


def timed(gaps: list[tuple[int, float]]) -> list[tuple[int, float]]:
    times = np.cumsum([gap for gap, _ in gaps]) * 1000
    return [(int(time), value) for time, (_, value) in zip(times, gaps, strict=True)]


def near(one: float, other: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or abs(one - other) <= 1e-9 * max(abs(one), abs(other))


def points(answer: Answer, row: int) -> dict[int, float]:
    matrix = answer.matrix
    assert matrix is not None
    steps = np.flatnonzero(matrix.present[row])
    return {int(answer.times[step]): float(matrix.values[row, step]) for step in steps}


def by_series(answer: Answer) -> dict[str, dict[int, float]]:
    assert answer.matrix is not None
    return {labels["n"]: points(answer, row) for row, labels in enumerate(answer.matrix.labels.rows())}


@given(st.lists(SERIES, min_size=1, max_size=4), st.integers(1, 120), st.integers(1, 60), st.integers(0, 200))
def test_functions_over_windows(data: list[list[tuple[int, float]]], range_s: int, step_s: int, start_s: int) -> None:
    source = MemorySource()
    series = {str(number): timed(gaps) for number, gaps in enumerate(data)}
    for name, samples in series.items():
        source.add({"__name__": "m", "n": name}, [(time, value, 0) for time, value in samples])
    ends = [(start_s + step_s * at) * 1000 for at in range(20)]

    def check(query: str, expected: object) -> None:
        assert callable(expected)
        found = by_series(query_range(source, query, ends[0], ends[-1], step_s * 1000))
        for name, samples in series.items():
            wanted = {}
            for end in ends:
                begin = end - range_s * 1000
                window = [sample for sample in samples if begin < sample[0] <= end]
                value = expected(window, begin, end) if window else None
                if value is not None:
                    wanted[end] = value
            got = found.get(name, {})
            assert set(got) == set(wanted), query
            wrong = {end: (wanted[end], got[end]) for end in wanted if not near(wanted[end], got[end])}
            assert not wrong, query

    for name, function in plain.FUNCTIONS.items():
        check(f"{name}(m[{range_s}s])", lambda window, begin, end, f=function: f(window))
    check(f"quantile_over_time(0.3, m[{range_s}s])", lambda window, begin, end: plain.quantile(window, 0.3))
    for name, counter, per_second in (("rate", True, True), ("increase", True, False), ("delta", False, False)):
        check(
            f"{name}(m[{range_s}s])",
            lambda window, begin, end, c=counter, p=per_second: plain.growth(window, begin, end, c, p),
        )


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(-100, 100)), min_size=2, max_size=30))
def test_variance(data: list[tuple[int, float]]) -> None:
    source = MemorySource()
    samples = timed(data)
    source.add({"__name__": "m", "n": "0"}, [(time, value, 0) for time, value in samples])
    end = samples[-1][0]
    answer = query_range(source, "stdvar_over_time(m[1h])", end, end, 1000)
    found = by_series(answer)["0"][end]
    assert found == pytest.approx(plain.variance(samples), rel=1e-9, abs=1e-12)


class Shared:
    """Is a source whose series share their times."""

    def __init__(self, block: SeriesBlock) -> None:
        self.block = block

    def select(self, matchers: list[Matcher], start_ms: int, end_ms: int, hints: Hints) -> list[SeriesBlock]:
        return [self.block]


@given(st.lists(SERIES, min_size=1, max_size=5), st.data())
def test_series_can_be_taken(data: list[list[tuple[int, float]]], draw: st.DataObject) -> None:
    source = MemorySource()
    for number, gaps in enumerate(data):
        source.add({"n": str(number)}, [(time, value, 0) for time, value in timed(gaps)])
    samples = source.whole().floats
    rows = draw.draw(st.lists(st.integers(0, len(data) - 1), max_size=6))
    taken = samples.take(np.array(rows, np.int64))
    assert taken.series == len(rows)
    for at, row in enumerate(rows):
        one, other = taken.part(at, at + 1), samples.part(row, row + 1)
        assert one.times.tolist() == other.times.tolist()
        assert np.array_equal(one.values, other.values, equal_nan=True)


QUERIES = [
    *(
        f"{name}(m[45s])"
        for name in ("rate", "irate", "delta", "sum_over_time", "max_over_time", "changes", "resets")
    ),
    *("deriv(m[1m])", "stddev_over_time(m[1m])", "mad_over_time(m[1m])", "predict_linear(m[1m], 10)"),
    *("m", "m offset 20s", "sum(rate(m[45s]))", "sum by (n) (m)", "quantile_over_time(0.9, m[1m:7s])"),
    *("rate(m[45s] anchored)", "rate(m[45s] smoothed)", "m smoothed", "topk(2, m)", "avg(m)", "stddev(m)"),
]


@pytest.mark.parametrize("query", QUERIES)
def test_series_that_share_their_times_give_the_same(query: str) -> None:
    chance = np.random.default_rng(7)
    times = np.cumsum(chance.integers(8_000, 20_000, 60)).astype(np.int64)
    values = chance.normal(0, 10, (300, 60)).cumsum(axis=1)
    values[::7, 20:] = 0
    values[3, 5] = np.nan
    labels = LabelTable.of([{"__name__": "m", "n": str(row)} for row in range(300)])
    shared = SeriesBlock(labels, Samples(times, values))
    single = SeriesBlock(labels, Samples(times, values).ragged())
    begin, end = int(times[5]), int(times[-5])
    one = query_range(Shared(shared), query, begin, end, 11_000)  # type: ignore[arg-type]
    other = query_range(Shared(single), query, begin, end, 11_000)  # type: ignore[arg-type]
    assert one.matrix is not None
    assert other.matrix is not None
    assert one.matrix.labels.rows() == other.matrix.labels.rows()
    assert np.array_equal(one.matrix.present, other.matrix.present)
    here = one.matrix.present
    assert np.allclose(one.matrix.values[here], other.matrix.values[here], rtol=1e-12, equal_nan=True)
