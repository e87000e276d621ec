"""Functions of ranges give what they mean, window by window, however the lines come."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.query.logql.engine import Engine
from frazil.query.logql.metrics import windows
from frazil.query.logql.metrics.evaluation import Evaluation
from frazil.query.logql.parse.metric_tree import RangeAggregation
from frazil.query.logql.parse.parser import parse
from tests.query.logql.memory_source import MemoryBlock, MemorySource

Sample = tuple[str, int, float]


def engine(samples: list[Sample], rows_at_once: int) -> Engine:
    streams = [{"app": "a"}, {"app": "b"}]
    block = MemoryBlock(
        times_ns=np.array([time for _, time, _ in samples], np.int64),
        lines=pa.array([f"v={value}" for _, _, value in samples], pa.string()),
        streams=streams,
        stream_codes=np.array([ord(app) - ord("a") for app, _, _ in samples], np.int32),
        metadata_columns={},
    )
    return Engine(MemorySource(block, rows_at_once))


def deviation(values: list[float]) -> float:
    return statistics.pstdev(values)


def quantile(values: list[float]) -> float:
    return float(np.quantile(values, 0.3))


_UNWRAPPED: dict[str, Callable[[list[float]], float]] = {
    "sum_over_time(X)": math.fsum,
    "avg_over_time(X)": statistics.fmean,
    "min_over_time(X)": min,
    "max_over_time(X)": max,
    "first_over_time(X)": lambda values: values[0],
    "last_over_time(X)": lambda values: values[-1],
    "stddev_over_time(X)": deviation,
    "stdvar_over_time(X)": lambda values: deviation(values) ** 2,
    "quantile_over_time(0.3, X)": quantile,
}
_LINES: dict[str, Callable[[list[float]], float]] = {
    "count_over_time(X)": len,
    "bytes_over_time(X)": lambda values: sum(len(f"v={value}") for value in values),
}

_SAMPLES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(-50, 50).map(float)),
    unique_by=lambda sample: sample[:2],
    max_size=30,
)


@given(_SAMPLES, st.integers(1, 25), st.integers(1, 25), st.integers(-5, 5), st.integers(1, 7))
def test_every_function(samples: list[Sample], step: int, length: int, offset: int, rows_at_once: int) -> None:
    asked = engine(samples, rows_at_once)
    steps = range(3, 70, step)
    for written, expected in (_UNWRAPPED | _LINES).items():
        unwrap = " | logfmt | unwrap v" if written in _UNWRAPPED else ""
        selected = f'{{app=~".+"}}{unwrap} [1s] offset 1s'
        query = written.replace("X", selected)
        found = _asked_in_nanoseconds(asked, query, steps, length, offset)
        for app in "ab":
            for number, at in enumerate(steps):
                end = at - offset
                inside = sorted(
                    (time, value) for name, time, value in samples if name == app and end - length < time <= end
                )
                values = [value for _, value in inside]
                got = found.get((app, number))
                assert (got is None) == (not values), (written, at)
                if values and got is not None:
                    assert got == pytest.approx(expected(values), abs=1e-9), (written, at, values)


def _asked_in_nanoseconds(
    asked: Engine, query: str, steps: range, length: int, offset: int
) -> dict[tuple[str, int], float]:
    """Evaluates with a range and an offset of so many nanoseconds, which no text can name."""
    tree = parse(query)
    assert isinstance(tree, RangeAggregation)
    log_range = replace(tree.range, interval_ns=length, offset_ns=offset)
    evaluation = Evaluation(asked.source, np.array(steps, np.int64), asked.guard, instant=False)
    matrix = evaluation.matrix(replace(tree, range=log_range))
    return {
        (dict(labels)["app"], number): float(values[number])
        for labels, values, present in zip(matrix.series, matrix.values, matrix.present, strict=True)
        for number in np.flatnonzero(present).tolist()
    }


def test_counting_by_cells_and_by_samples_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [("ab"[number % 2], number * 7, float(number)) for number in range(200)]
    answers = []
    for most in (windows._MOST_CELLS, 0):
        monkeypatch.setattr(windows, "_MOST_CELLS", most)
        found = engine(samples, 50).range('bytes_rate({app=~".+"}[1s])', 0, 5_000_000_000, 300_000_000).matrix
        answers.append((found.series, found.values.tolist(), found.present.tolist()))
    assert answers[0] == answers[1]


def test_large_values_do_not_hide_small_differences() -> None:
    samples = [("a", 1, 1e15), ("a", 2, 1e15 + 2), ("b", 1, 1.0)]
    found = engine(samples, 9).range('stddev_over_time({app="a"} | logfmt | unwrap v [1s])', 5, 5, 1).matrix
    assert found.values.tolist() == [[1.0]]
