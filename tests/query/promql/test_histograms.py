"""Native histograms: merging, resets, quantiles, trimming, and rates of many windows at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.query.promql.engine.query import Answer, query_range
from frazil.query.promql.histograms.histogram import CUSTOM_SCHEMA, EMPTY, Buckets, Hint, Histogram
from frazil.query.promql.histograms.merge import IncompatibleSchemas, add, add_all, average, reduce_schema, subtract
from frazil.query.promql.histograms.quantiles import fraction, quantile, variance
from frazil.query.promql.histograms.resets import is_reset
from frazil.query.promql.histograms.text import print_histogram
from frazil.query.promql.histograms.trim import trim
from frazil.query.promql.series.memory import MemorySource
from frazil.query.promql.windows import dense_rates


def side(counts: dict[int, float]) -> Buckets:
    if not counts:
        return EMPTY
    indexes = sorted(counts)
    return Buckets(np.array(indexes, np.int64), np.array([float(counts[at]) for at in indexes]))


def make(
    positive: dict[int, float],
    negative: dict[int, float] | None = None,
    schema: int = 0,
    zero: float = 0.0,
    threshold: float = 0.001,
    total: float = 0.0,
    hint: Hint = Hint.UNKNOWN,
) -> Histogram:
    count = sum(positive.values()) + sum((negative or {}).values()) + zero
    return Histogram(schema, count, total, threshold, zero, side(positive), side(negative or {}), (), hint)


COUNTS = st.dictionaries(st.integers(-8, 12), st.integers(1, 9).map(float), max_size=6)
HISTOGRAMS = st.builds(
    make,
    COUNTS,
    COUNTS,
    st.integers(-2, 4),
    st.integers(0, 5).map(float),
    # Narrower than any of the buckets above: what is inside the zero bucket counts there only.
    st.sampled_from([0.0, 1e-12]),
    st.floats(-100, 100),
)


@given(HISTOGRAMS, HISTOGRAMS)
def test_sums_do_not_depend_on_the_order(one: Histogram, other: Histogram) -> None:
    left, right = add(one, other).histogram.compact(), add(other, one).histogram.compact()
    assert left.same(right)
    assert left.schema == min(one.schema, other.schema)
    counts = left.positive.counts.sum() + left.negative.counts.sum() + left.zero_count
    assert counts == pytest.approx(left.count)


@given(st.lists(HISTOGRAMS, min_size=1, max_size=5))
def test_the_sum_of_many_is_that_of_pairs(histograms: list[Histogram]) -> None:
    expected = histograms[0]
    for histogram in histograms[1:]:
        expected = add(expected, histogram).histogram
    found = add_all(histograms).histogram.compact()
    assert (found.schema, found.count, found.zero_count) == (expected.schema, expected.count, expected.zero_count)
    assert np.array_equal(found.positive.counts, expected.compact().positive.counts)
    assert average(histograms).histogram.count == pytest.approx(expected.count / len(histograms))


@given(HISTOGRAMS, st.integers(-4, 0))
def test_coarser_buckets_keep_counts_and_order(histogram: Histogram, schema: int) -> None:
    coarse = reduce_schema(histogram, schema)
    assert coarse.positive.counts.sum() == histogram.positive.counts.sum()
    assert (np.diff(coarse.positive.indexes) > 0).all()


@given(HISTOGRAMS, HISTOGRAMS)
def test_what_only_grows_is_no_reset(before: Histogram, more: Histogram) -> None:
    grown = add(before, more).histogram
    if grown.schema == before.schema and grown.zero_threshold == before.zero_threshold:
        assert not is_reset(grown, before)
        assert before.count == grown.count or is_reset(before, grown)


@given(HISTOGRAMS.filter(lambda h: h.count > 0), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_ascend(histogram: Histogram, one: float, other: float) -> None:
    low, high = sorted((one, other))
    lower, upper = quantile(low, histogram)[0], quantile(high, histogram)[0]
    assert lower <= upper + 1e-9 * (1 + abs(upper))


@given(HISTOGRAMS.filter(lambda h: h.count > 0), st.floats(-50, 50))
def test_what_is_cut_off_and_what_is_left_are_the_whole(histogram: Histogram, limit: float) -> None:
    below, above = trim(histogram, limit, True), trim(histogram, limit, False)
    assert below.count + above.count == pytest.approx(histogram.count)
    share, _ = fraction(-math.inf, limit, histogram)
    assert share == pytest.approx(below.count / histogram.count, abs=1e-9)


def test_extremes_and_values() -> None:
    histogram = make({0: 2, 1: 2}, zero=0)
    assert quantile(-1, histogram)[0] == -math.inf
    assert quantile(2, histogram)[0] == math.inf
    assert math.isnan(quantile(0.5, make({}))[0])
    assert quantile(0.5, histogram)[0] == pytest.approx(1.0)
    assert variance(make({1: 4}, total=4 * math.sqrt(2))) == pytest.approx(0.0, abs=1e-12)
    assert print_histogram(make({1: 3}, {0: 1}, zero=2, total=58.4)) == (
        "{count:6, sum:58.4, [-1,-0.5):1, [-0.001,0.001]:2, (1,2]:3}"
    )


def test_custom_buckets_meet_at_their_common_bounds() -> None:
    one = Histogram(CUSTOM_SCHEMA, 6, 1, positive=side({0: 1, 1: 2, 2: 3}), bounds=(1.0, 5.0))
    other = Histogram(CUSTOM_SCHEMA, 3, 1, positive=side({0: 1, 2: 2}), bounds=(5.0, 10.0))
    merged = add(one, other)
    assert merged.reconciled
    assert merged.histogram.bounds == (5.0,)
    assert merged.histogram.positive.counts.tolist() == [4.0, 5.0]
    with pytest.raises(IncompatibleSchemas):
        subtract(one, make({1: 1}))


def test_hints_that_contradict_each_other_are_told() -> None:
    one, other = make({1: 1}, hint=Hint.RESET), make({1: 1}, hint=Hint.NOT_RESET)
    assert add(one, other).hint_clash
    assert add(one, other).histogram.hint == Hint.UNKNOWN
    assert not add(one, make({1: 1}, hint=Hint.GAUGE)).hint_clash


def result(answer: Answer) -> list[list[Histogram | None]]:
    assert answer.matrix is not None
    return [] if answer.matrix.cells is None else answer.matrix.cells.tolist()


@pytest.mark.parametrize("query", ["rate(h[1m])", "increase(h[100s])", "sum(rate(h[2m]))"])
def test_all_windows_at_once_give_what_one_by_one_gives(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    source = MemorySource()
    for series in range(4):
        counts = np.zeros(8)
        for time in range(80):
            if chance.random() < 0.1:
                continue
            counts = np.zeros(8) if chance.random() < 0.05 else counts + chance.integers(0, 3, 8)
            positive = {at: float(count) for at, count in enumerate(counts[:5]) if count}
            negative = {at: float(count) for at, count in enumerate(counts[5:7]) if count}
            histogram = make(positive, negative, zero=float(counts[7]), total=float(counts.sum()))
            source.add({"__name__": "h", "n": str(series)}, [(time * 10_000, histogram, 0)])
    at_once = result(query_range(source, query, 100_000, 790_000, 7_000))
    monkeypatch.setattr(dense_rates, "lay_out", lambda histograms: None)
    one_by_one = result(query_range(source, query, 100_000, 790_000, 7_000))
    assert len(at_once) == len(one_by_one) > 0
    for left, right in zip(sum(at_once, []), sum(one_by_one, []), strict=True):  # noqa: RUF017 - a handful of rows
        assert (left is None) == (right is None)
        if left is None or right is None:
            continue
        assert left.count == pytest.approx(right.count, rel=1e-12)
        assert left.positive.indexes.tolist() == right.positive.indexes.tolist()
        assert left.positive.counts == pytest.approx(right.positive.counts, rel=1e-12)
        assert left.hint == right.hint == Hint.GAUGE
