"""Whole queries: names, order, annotations, limits and cancellation."""

from __future__ import annotations

import math

import pytest

from frazil.query.promql.engine.query import Answer, query_instant, query_range
from frazil.query.promql.evaluation.options import EngineOptions
from frazil.query.promql.histograms.histogram import Buckets, Histogram
from frazil.query.promql.parse import parse
from frazil.query.promql.problems import DurationError, ExecutionError, InvalidQuery, TooManySamples
from frazil.query.promql.series.memory import MemorySource
from frazil.query.promql.series.source import STALE
from frazil.query.promql.types import ValueType

MINUTE = 60_000


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    for job, step in (("a", 1.0), ("b", 2.0), ("c", 2.0)):
        source.add({"__name__": "requests_total", "job": job}, [(t * 15_000, t * step, 0) for t in range(40)])
        source.add({"__name__": "gauge", "job": job}, [(t * 15_000, step, 0) for t in range(40)])
    return source


def values(answer: Answer) -> dict[str, float]:
    """Returns the elements of a vector by their labels, printed."""
    matrix = answer.matrix
    assert matrix is not None
    return {
        ",".join(f"{k}={v}" for k, v in labels.items()): float(matrix.values[row, 0])
        for row, labels in enumerate(matrix.labels.rows())
        if matrix.present[row, 0]
    }


def test_rates_are_summed_and_lose_their_names(source: MemorySource) -> None:
    answer = query_instant(source, "sum by (job) (rate(requests_total[1m]))", 5 * MINUTE)
    assert values(answer) == {
        "job=a": pytest.approx(1 / 15),
        "job=b": pytest.approx(2 / 15),
        "job=c": pytest.approx(2 / 15),
    }
    assert values(query_instant(source, "rate(requests_total[1m])", 5 * MINUTE)).keys() == {"job=a", "job=b", "job=c"}


def test_names_can_go_late(source: MemorySource) -> None:
    query = 'label_replace(rate({job="a"}[1m]), "__name__", "${1}:rate", "__name__", "(.*)")'
    with pytest.raises(ExecutionError, match="same labelset"):
        query_instant(source, query, 5 * MINUTE)
    late = query_instant(source, query, 5 * MINUTE, EngineOptions(delayed_names=True))
    assert values(late).keys() == {"__name__=requests_total:rate,job=a", "__name__=gauge:rate,job=a"}


def test_a_window_is_open_on_its_left(source: MemorySource) -> None:
    assert set(values(query_instant(source, "count_over_time(gauge[1m])", 5 * MINUTE)).values()) == {4.0}
    assert values(query_instant(source, "gauge", 39 * 15_000 + 300_000)) == {}
    short = EngineOptions(lookback_ms=10_000)
    assert values(query_instant(source, "gauge", 5 * MINUTE + 10_000, short)) == {}


def test_stale_markers_end_a_series_for_selectors_only(source: MemorySource) -> None:
    source.add({"__name__": "short"}, [(0, 1.0, 0), (15_000, STALE, 0)])
    assert values(query_instant(source, "short", 14_999)) == {"__name__=short": 1.0}
    assert values(query_instant(source, "short", 15_000)) == {}
    assert values(query_instant(source, "last_over_time(short[1m])", 15_000)) == {"__name__=short": 1.0}


def test_topk_is_ordered(source: MemorySource) -> None:
    answer = query_instant(source, "topk(2, requests_total)", 5 * MINUTE)
    assert list(values(answer).values()) == [40.0, 40.0]
    assert list(values(query_instant(source, "bottomk(1, gauge)", MINUTE))) == ["__name__=gauge,job=a"]


def test_annotations_have_positions(source: MemorySource) -> None:
    answer = query_instant(source, "1 +\n rate(gauge[1m])", 5 * MINUTE)
    assert answer.infos == [
        'PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "gauge" (2:7)'
    ]
    answer = query_range(source, "sort(gauge)", 0, MINUTE, MINUTE)
    assert answer.warnings == [
        "PromQL warning: sort is ineffective for range queries since results are always ordered by labels (1:1)"
    ]


def test_type_labels_say_what_is_a_counter(source: MemorySource) -> None:
    source.add({"__name__": "typed", "__type__": "gauge"}, [(0, 1.0, 0), (15_000, 2.0, 0)])
    answer = query_instant(source, "rate(typed[1m])", 15_000, EngineOptions(type_and_unit_labels=True))
    assert '__type__ label is not set to "counter" or "histogram", got "gauge": "typed"' in answer.infos[0]


def test_start_timestamps_show_resets() -> None:
    source = MemorySource()
    source.add({"__name__": "deltas_total"}, [(t * MINUTE, 60.0, (t - 1) * MINUTE) for t in range(2, 12)])
    query = "increase(deltas_total[5m])"
    assert values(query_instant(source, query, 10 * MINUTE)) == {"": 0.0}
    assert values(query_instant(source, query, 10 * MINUTE, EngineOptions(start_timestamps=True))) == {"": 300.0}


def test_histograms_are_values_like_others() -> None:
    source = MemorySource()
    for time in range(10):
        count = float(time + 1)
        buckets = Buckets(Histogram().positive.indexes, Histogram().positive.counts)
        histogram = Histogram(
            schema=0, count=count, sum=count, zero_threshold=0.1, zero_count=count, positive=buckets
        )
        source.add({"__name__": "sizes"}, [(time * 15_000, histogram, 0)])
    assert values(query_instant(source, "histogram_count(increase(sizes[1m]))", 120_000)) == {"": 4.0}
    mixed = query_instant(source, "sum(sizes) + 1", 120_000)
    assert values(mixed) == {}
    assert 'binary operator "+": histogram + float' in mixed.infos[0]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("gauge + on() gauge", "many-to-many matching not allowed"),
        ("gauge + on(job) {job=~'.+'}", "many-to-many matching not allowed"),
        ("sum by (x) (gauge) + on() group_left() gauge", "found duplicate series for the match group {}"),
        ("label_replace(gauge, 'job', 'x', '', '')", "same labelset"),
        ("label_replace(gauge, 'job', 'x', '', '(')", "invalid regular expression"),
        ("topk(NaN, gauge)", "Parameter value is NaN"),
        ("double_exponential_smoothing(gauge[5m], 2, 0.5)", "invalid smoothing factor"),
        ("sum_over_time(gauge[5m] anchored)", "anchored modifier can only be used with"),
        ("1 </ 2", 'operator "</" not allowed for Scalar operations'),
    ],
)
def test_what_has_no_answer_is_an_error(source: MemorySource, query: str, message: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        query_instant(source, query, MINUTE)
    assert message in str(caught.value)


def test_computed_durations_are_checked(source: MemorySource) -> None:
    with pytest.raises(DurationError, match="duration must be greater than 0"):
        query_instant(source, "rate(gauge[step()])", MINUTE)
    answer = query_range(source, "count_over_time(gauge[step()*2])", 5 * MINUTE, 6 * MINUTE, MINUTE)
    assert answer.matrix is not None
    assert set(answer.matrix.values.reshape(-1).tolist()) == {8.0}


def test_ranges_are_checked(source: MemorySource) -> None:
    for arguments in ((0, 10, 0), (10, 0, 1), (0, 11_001_000, 1000)):
        with pytest.raises(InvalidQuery):
            query_range(source, "gauge", *arguments)
    with pytest.raises(InvalidQuery, match='invalid expression type "range vector"'):
        query_range(source, "gauge[5m]", 0, 10, 1)


def test_queries_hold_so_many_samples_and_no_more(source: MemorySource) -> None:
    with pytest.raises(TooManySamples, match="too many samples"):
        query_range(source, "gauge", 0, 10 * MINUTE, 1000, EngineOptions(max_samples=1000))
    with pytest.raises(TooManySamples):
        query_range(source, "sum(rate(gauge[5m:1ms]))", 0, MINUTE, MINUTE, EngineOptions(max_samples=100_000))


def test_only_the_samples_of_the_windows_count(source: MemorySource) -> None:
    few = EngineOptions(max_samples=40)
    assert len(values(query_instant(source, "rate(requests_total[1m])", 5 * MINUTE, few))) == 3
    with pytest.raises(TooManySamples):
        query_instant(source, "rate(requests_total[10m])", 10 * MINUTE, few)


def test_queries_can_be_stopped(source: MemorySource) -> None:
    class Stopped(Exception):
        pass

    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Stopped

    with pytest.raises(Stopped):
        query_range(source, "sum(rate(requests_total[1m])) / count(gauge)", 0, MINUTE, 1000, check=check)


def test_scalars_texts_and_raw_samples(source: MemorySource) -> None:
    assert query_instant(source, '"text"', 0).text == "text"
    scalar = query_instant(source, "scalar(gauge) + 1", MINUTE)
    assert scalar.scalar is not None
    assert math.isnan(scalar.scalar[0])
    raw = query_instant(source, 'gauge{job="a"}[30s]', MINUTE)
    assert raw.type == ValueType.MATRIX
    assert raw.ranges is not None
    assert raw.ranges.floats[0].times.tolist() == [45_000, 60_000]


def test_deep_queries_are_answered(source: MemorySource) -> None:
    chain = " + ".join(['gauge{job="a"}'] * 190)
    assert list(values(query_instant(source, chain, MINUTE)).values()) == [190.0]
    nested = "abs(" * 70 + 'gauge{job="a"}' + ")" * 70
    assert str(parse(nested)) == nested
    answer = query_range(source, nested, 0, MINUTE, MINUTE)
    assert answer.matrix is not None
    assert answer.matrix.values.tolist() == [[1.0, 1.0]]


def test_an_empty_source_has_empty_answers() -> None:
    for query in ("m", "sum(m)", "rate(m[5m])", "m + m", "topk(3, m)", "histogram_quantile(0.9, m)", "sort(m)", "-m"):
        answer = query_range(MemorySource(), query, 0, MINUTE, 1000) if query != "sort(m)" else None
        assert answer is None or (answer.matrix is not None and answer.matrix.size == 0)
    assert values(query_instant(MemorySource(), 'absent(m{job="a"})', 0)) == {"job=a": 1.0}
