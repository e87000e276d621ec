"""Spans become series: which step they are in, what is counted, and what comes after."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.metrics.histograms import quantile
from frazil.query.traceql.engine.metrics.series import text_of
from tests.query.traceql.engine.metrics_support import samples_of, series_of
from tests.query.traceql.span_texts import BASE, read_spans

SECOND = 10**9
SPANS = """
1 a - name=root service=web start=0 took=100 span.n=5
1 b a name=step service=db start=10 took=20 status=error span.n=7
1 c b name=step start=1011 took=5 span.n=2.5
2 a - name=root service=web start=1000 took=10
2 b a name=late service=db start=2001 status=error
"""
GRID = Grid.over(BASE, BASE + 2 * SECOND + 1, SECOND)
"""Has four steps. A span at its start is in the first."""


@pytest.fixture(scope="module")
def spans() -> pa.Table:
    return read_spans(SPANS)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("{} | rate()", {"__name__=rate": [1, 2, 1, 1]}),
        ("{} | count_over_time()", {"__name__=count_over_time": [1, 2, 1, 1]}),
        ("{ false } | rate()", {"__name__=rate": [0, 0, 0, 0]}),
        ("{ false } | rate() by(name)", {}),
        ("{ false } | max_over_time(duration)", {}),
        (
            "{} | count_over_time() by(resource.service.name)",
            {
                "resource.service.name=db": [0, 1, 0, 1],
                "resource.service.name=nil": [0, 0, 1, 0],
                "resource.service.name=web": [1, 1, 0, 0],
            },
        ),
        (
            "{ name = `step` } | count_over_time() by(resource.service.name, status)",
            {"status=unset": [0, 0, 1, 0], "resource.service.name=db, status=error": [0, 1, 0, 0]},
        ),
        ("{} | count_over_time() by(span.nosuch)", {"span.nosuch=nil": [1, 2, 1, 1]}),
        ("{} | sum_over_time(span.n)", {"__name__=sum_over_time": [5, 7, 2.5, None]}),
        ("{} | max_over_time(duration)", {"__name__=max_over_time": [0.1, 0.02, 0.005, 0]}),
        ("{} | min_over_time(duration)", {"__name__=min_over_time": [0.1, 0.01, 0.005, 0]}),
        ("{} | avg_over_time(duration)", {"__name__=avg_over_time": [0.1, 0.015, 0.005, 0]}),
        ("{} | avg_over_time(name)", {}),
        (
            "{ name = `root` } | histogram_over_time(duration)",
            {"__bucket=0.016777216": [0, 1, 0, 0], "__bucket=0.134217728": [1, 0, 0, 0]},
        ),
        ("{ name = `root` } | quantile_over_time(duration, 1)", {"p=1.0": [0.134217728, 0.016777216, 0, 0]}),
        ("{ name = `root` } >> {} | count_over_time()", {"__name__=count_over_time": [0, 1, 1, 1]}),
        ("{} | count() > 2 | count_over_time()", {"__name__=count_over_time": [1, 1, 1, 0]}),
        ("{} | count_over_time() by(rootName)", {"rootName=root": [1, 2, 1, 1]}),
        ("{} | by(name) | select(status) | rate()", {"__name__=rate": [1, 2, 1, 1]}),
        (
            "{} | count_over_time() by(name) | topk(1)",
            {"name=late": [None, None, None, 1], "name=root": [1, 1, None, None], "name=step": [None, None, 1, None]},
        ),
        (
            "{} | rate() by(name) | topk(3)",
            {"name=late": [0, 0, 0, 1], "name=root": [1, 1, 0, 0], "name=step": [0, 1, 1, 0]},
        ),
        (
            "{} | rate() by(name) | bottomk(1)",
            {"name=late": [0, 0, 0, None], "name=root": [None, None, None, 0]},
        ),
        ("{} | rate() > 1", {"__name__=rate": [None, 2, None, None]}),
        ("{} | rate() > 1 != 2", {}),
        ("{} | max_over_time(duration) >= 100ms", {"__name__=max_over_time": [0.1, None, None, None]}),
        ("({} | rate()) * 100 + 1", {"__name__=rate": [101, 201, 101, 101]}),
        ("10 - ({} | rate())", {"__name__=rate": [9, 8, 9, 9]}),
        ("({} | rate()) / ({} | count_over_time())", {"__name__=(rate / count_over_time)": [1, 1, 1, 1]}),
        (
            "({ status = error } | rate() by(name)) / ({} | rate() by(name))",
            {"name=late": [None, None, None, 1], "name=step": [None, 1, 0, None]},
        ),
        (
            "({} | rate() by(name)) * ({} | count_over_time())",
            {"name=late": [0, 0, 0, 1], "name=root": [1, 2, 0, 0], "name=step": [0, 2, 1, 0]},
        ),
    ],
)
def test_samples(spans: pa.Table, query: str, expected: dict[str, list[Any]]) -> None:
    for unit_rows in (1, 3, 100):
        found = samples_of(series_of(query, spans, GRID, unit_rows=unit_rows))
        assert list(found) == list(expected)
        assert [pytest.approx(each) for each in expected.values()] == list(found.values())


def test_a_step_begins_after_its_start_and_has_its_end() -> None:
    spans = read_spans("\n".join(f"1 {at + 1:x} - name=x start={at}" for at in (0, 1, 999, 1000, 1001, 2000, 2001)))
    assert samples_of(series_of("{} | count_over_time()", spans, Grid.over(BASE, BASE + 2 * SECOND, SECOND))) == {
        "__name__=count_over_time": [1, 3, 2]
    }
    assert samples_of(series_of("{} | count_over_time()", spans, Grid.instant(BASE, BASE + 2 * SECOND))) == {
        "__name__=count_over_time": [5]
    }


def test_a_quantile_that_fills_a_bucket_is_its_bound() -> None:
    spans = read_spans("\n".join(f"1 {at:x} - name=x start=1 took={at * 10}" for at in range(2, 11)))
    found = samples_of(series_of("{} | quantile_over_time(duration, 0.5)", spans, Grid.instant(BASE, BASE + SECOND)))
    assert found == {"p=0.5": [0.067108864]}


def test_a_quantile_within_a_bucket_is_between_its_bounds() -> None:
    found = quantile(0.5, np.array([4.0, 16.0]), np.array([[1.0], [4.0]]))
    assert found[0] == pytest.approx(2 ** (2 + 2 * 2 / 4))


def test_exemplars(spans: pa.Table) -> None:
    (series,) = series_of("{ status = error } | rate()", spans, GRID, exemplars=10)
    labels = [{label.key: text_of(label.value) for label in each.labels} for each in series.exemplars]
    assert labels == [{"status": "error", "trace:id": "1"}, {"status": "error", "trace:id": "2"}]
    assert [(each.value, each.time_ms) for each in series.exemplars] == [
        (1, BASE // 10**6 + 10),
        (1, BASE // 10**6 + 2001),
    ]
    (one,) = series_of("{} | max_over_time(duration)", spans, GRID, exemplars=1)
    assert [each.value for each in one.exemplars] == [0.1]
    (none,) = series_of("{} | rate()", spans, GRID, exemplars=0)
    assert none.exemplars == ()


def test_compare(spans: pa.Table) -> None:
    found = samples_of(
        series_of("{} | compare({ status = error }, 1)", spans, Grid.instant(BASE - 1, BASE + 3 * SECOND))
    )
    assert found["__meta_type=selection, name=late"] == [1]
    assert found["__meta_type=baseline, name=root"] == [2]
    assert found["__meta_type=baseline_total, name=nil"] == [3]
    assert found["__meta_type=selection_total, span.n=nil"] == [1]
    assert found["__meta_type=selection, resource.service.name=db"] == [2]
    assert "__meta_type=baseline, name=step" not in found
    assert found["__meta_type=baseline, __meta_error=__too_many_values__, name=nil"] == [0]
    assert not any(math.isnan(sample[0]) for sample in found.values())
