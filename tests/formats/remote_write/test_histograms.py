"""Native histograms of Prometheus become rows of a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_UNSPECIFIED,
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
)

from frazil.errors import RequestError
from frazil.formats.otlp import metrics
from frazil.formats.remote_write.histograms import MOST_BUCKETS, MOST_TOGETHER, STALE
from frazil.formats.remote_write.messages import Histogram, WriteRequest
from frazil.formats.telemetry.row_messages import Row
from frazil.formats.telemetry.series import series_id
from tests.formats.remote_write.support import STALE_NUMBER, TIME_MS, add, bits_of, plain, rows_of

Buckets = ExponentialHistogramDataPoint.Buckets


def request_of(*histograms: Message) -> Any:
    request = WriteRequest()
    add(request, name="took_seconds", job="api").histograms.extend(histograms)
    return request


def row_of(histogram: Message) -> Row:
    (row,) = plain(rows_of(request_of(histogram)))
    return row


def spans(*told: tuple[int, int]) -> list[dict[str, int]]:
    return [{"offset": offset, "length": length} for offset, length in told]


def test_exponential_buckets_of_both_sides() -> None:
    histogram = Histogram(
        count_int=17,
        sum=-3.5,
        schema=0,
        zero_threshold=0.001,
        zero_count_int=3,
        # These are buckets 1 and 2, which end at 2 and 4, and bucket 4, which ends at 16.
        positive_spans=spans((1, 2), (1, 1)),
        positive_deltas=[1, 1, 3],
        # These are buckets -1 and 0, which begin at -0.5 and -1.
        negative_spans=spans((-1, 2)),
        negative_deltas=[4, -2],
        timestamp=TIME_MS,
    )
    row = row_of(histogram)
    metric = metrics.to_message(row)
    assert (metric.name, row["prometheus_name"], row["service_name"]) == ("took_seconds", "took_seconds", "api")
    assert row["series_id"] == series_id({"__name__": "took_seconds", "job": "api"})
    assert metric.exponential_histogram.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = metric.exponential_histogram.data_points
    assert point == ExponentialHistogramDataPoint(
        attributes=point.attributes,
        time_unix_nano=TIME_MS * 10**6,
        count=17,
        sum=-3.5,
        scale=0,
        zero_threshold=0.001,
        zero_count=3,
        # The buckets from 1 on are (1, 2], (2, 4], (4, 8], (8, 16].
        positive=Buckets(offset=0, bucket_counts=[1, 2, 0, 5]),
        # The buckets from -0.25 on are [-0.5, -0.25), [-1, -0.5).
        negative=Buckets(offset=-2, bucket_counts=[4, 2]),
    )


def test_bounds_of_its_own() -> None:
    histogram = Histogram(
        count_int=6,
        sum=7.5,
        schema=-53,
        custom_values=[0.1, 0.5, 1, 5],
        positive_spans=spans((1, 1), (1, 2)),
        positive_deltas=[2, -1, 2],
        timestamp=TIME_MS,
    )
    metric = metrics.to_message(row_of(histogram))
    assert metric.histogram.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = metric.histogram.data_points
    assert point == HistogramDataPoint(
        attributes=point.attributes,
        time_unix_nano=TIME_MS * 10**6,
        count=6,
        sum=7.5,
        explicit_bounds=[0.1, 0.5, 1, 5],
        bucket_counts=[0, 2, 0, 1, 3],
    )


def test_no_buckets_at_all() -> None:
    exponential = metrics.to_message(row_of(Histogram(schema=3, timestamp=TIME_MS))).exponential_histogram
    (point,) = exponential.data_points
    assert [point.HasField(side) for side in ("positive", "negative")] == [False, False]
    (explicit,) = metrics.to_message(
        row_of(Histogram(schema=-53, custom_values=[1.0], timestamp=TIME_MS))
    ).histogram.data_points
    assert list(explicit.bucket_counts) == [0, 0]
    (alone,) = metrics.to_message(row_of(Histogram(schema=-53, timestamp=TIME_MS))).histogram.data_points
    assert (list(alone.bucket_counts), list(alone.explicit_bounds)) == ([0], [])


def test_counts_that_are_floats_have_columns_of_their_own() -> None:
    row = row_of(
        Histogram(
            count_float=7.25,
            zero_count_float=1,
            schema=2,
            positive_spans=spans((0, 1), (1, 1)),
            positive_counts=[4, 0.1],
            negative_spans=spans((5, 1)),
            negative_counts=[math.inf],
            timestamp=TIME_MS,
        )
    )
    assert (row["count"], row["zero_count"], row["scale"]) == (None, None, 2)
    assert (row["count_double"], row["zero_count_double"]) == (7.25, 1.0)
    assert (row["positive_offset"], row["positive_bucket_counts_double"]) == (-1, [4, 0, 0.1])
    assert (row["negative_offset"], row["negative_bucket_counts_double"]) == (4, [math.inf])
    assert (row["positive_bucket_counts"], row["negative_bucket_counts"]) == (None, None)
    custom = Histogram(count_float=0.5, schema=-53, custom_values=[1, 2], positive_counts=[0.5])
    custom.positive_spans.add(offset=1, length=1)
    row = row_of(custom)
    assert (row["metric_type"], row["scale"], row["explicit_bounds"]) == ("histogram", -53, [1, 2])
    assert (row["bucket_counts"], row["bucket_counts_double"]) == (None, [0, 0.5, 0])


def test_whole_numbers_have_no_floats() -> None:
    row = row_of(Histogram(count_int=1, schema=0, positive_spans=spans((0, 1)), positive_deltas=[1]))
    assert [row[name] for name in row if name.endswith("counts_double") or name == "count_double"] == [None] * 4


@pytest.mark.parametrize(
    ("number", "hint"),
    [(0, "unknown"), (1, "reset"), (2, "not_reset"), (3, "gauge"), (4, "unknown"), (-1, "unknown")],
)
def test_what_they_say_of_resets(number: int, hint: str) -> None:
    assert row_of(Histogram(reset_hint=number))["counter_reset_hint"] == hint


def test_resolutions_that_prometheus_would_reduce_stay() -> None:
    row = row_of(Histogram(count_int=1, schema=20, positive_spans=spans((1000, 1)), positive_deltas=[1]))
    assert (row["scale"], row["positive_offset"]) == (20, 999)


def test_a_histogram_that_goes_up_and_down() -> None:
    row = row_of(Histogram(reset_hint=3, timestamp=TIME_MS))
    assert row["aggregation_temporality"] == AGGREGATION_TEMPORALITY_UNSPECIFIED
    assert row["is_monotonic"] is None


@pytest.mark.parametrize("schema", [0, -53])
def test_the_end_of_a_series(schema: int) -> None:
    row = row_of(Histogram(schema=schema, sum=STALE_NUMBER, timestamp=TIME_MS))
    assert (row["flags"], bits_of(row["sum"]), row["value_double"]) == (1, STALE, None)


WRONG: dict[str, Callable[[], Message]] = {
    "a count above 9223372036854775807": lambda: Histogram(count_int=2**63),
    "below zero": lambda: Histogram(count_float=-0.5),
    "counts below zero": lambda: Histogram(negative_spans=spans((0, 2)), negative_deltas=[1, -2]),
    "none of -9 to 52": lambda: Histogram(schema=53),
    "none of -9 to 52 and -53": lambda: Histogram(schema=-10),
    "more or fewer buckets": lambda: Histogram(positive_spans=spans((0, 2)), positive_deltas=[1]),
    "buckets than its spans": lambda: Histogram(positive_spans=spans((0, 2**32 - 1))),
    "fewer buckets": lambda: Histogram(count_int=1, positive_spans=spans((0, 1)), positive_counts=[1]),
    "spans that overlap": lambda: Histogram(positive_spans=spans((0, 2), (-1, 1)), positive_deltas=[1, 1, 1]),
    "10,000 buckets": lambda: Histogram(positive_spans=spans((0, 1), (MOST_BUCKETS - 1, 1)), positive_deltas=[1, 1]),
    "beyond all numbers": lambda: Histogram(positive_spans=spans((-(2**31), 1)), positive_deltas=[1]),
    "other buckets beside": lambda: Histogram(schema=-53, zero_count_int=1),
    "and other buckets": lambda: Histogram(schema=-53, negative_spans=spans((0, 1)), negative_deltas=[1]),
    "no bounds": lambda: Histogram(
        schema=-53, custom_values=[1.0], positive_spans=spans((2, 1)), positive_deltas=[1]
    ),
    "for which there are no bounds": lambda: Histogram(
        schema=-53, positive_spans=spans((-1, 1)), positive_deltas=[1]
    ),
}


@pytest.mark.parametrize("reason", WRONG)
def test_what_no_columns_can_have_is_rejected_alone(reason: str) -> None:
    rows = rows_of(WriteRequest(), request_of(Histogram(count_int=1), WRONG[reason](), Histogram(count_int=2)))
    assert rows.batch["count"].to_pylist() == [1, 2]
    assert rows.requests.tolist() == [1, 1]
    ((number, rejected),) = rows.rejected.items()
    assert (number, rejected.records) == (1, 1)
    assert reason in rejected.reason


def test_as_many_buckets_as_there_may_be() -> None:
    row = row_of(Histogram(positive_spans=spans((0, 1), (MOST_BUCKETS - 2, 1)), positive_deltas=[1, 1]))
    assert len(row["positive_bucket_counts"]) == MOST_BUCKETS


def test_few_bytes_that_stand_for_more_buckets_than_there_is_memory() -> None:
    wide = Histogram(positive_spans=spans((0, 1), (MOST_BUCKETS - 2, 1)), positive_deltas=[1, 1])
    with pytest.raises(RequestError, match="Send fewer at a time"):
        rows_of(request_of(*[wide] * (MOST_TOGETHER // MOST_BUCKETS + 1)))
    with pytest.raises(RequestError, match="Send smaller batches, or shorter attributes and labels"):
        rows_of(request_of(*[Histogram()] * 300_000))


def test_histograms_and_samples_of_one_request() -> None:
    request = WriteRequest()
    first = add(request, (1.0, TIME_MS), name="a")
    second = add(request, name="b", job="x")
    second.histograms.add(count_int=2, timestamp=TIME_MS)
    second.exemplars.add(value=0.5, timestamp=TIME_MS)
    first.histograms.add(count_int=3, schema=-53)
    add(request, (4.0, TIME_MS), job="x").histograms.add(count_int=5)
    other = WriteRequest()
    add(other, (6.0, TIME_MS), name="a")
    rows = rows_of(request, other)
    found = [(row["metric_name"], row["metric_type"], row["value_double"], row["count"]) for row in plain(rows)]
    assert found == [
        ("a", "gauge", 1.0, None),
        ("a", "histogram", None, 3),
        ("b", "exponential_histogram", None, 2),
        ("a", "gauge", 6.0, None),
    ]
    assert rows.requests.tolist() == [0, 0, 0, 1]
    assert [len(row["exemplars"]) for row in plain(rows)] == [0, 0, 1, 0]
    assert rows.timeless == frozenset()
    assert rows.rejected == {0: (2, "2 with no label `__name__`")}


@given(
    schema=st.integers(-4, 8),
    gaps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=4),
    start=st.integers(-20, 20),
    data=st.data(),
)
def test_buckets_keep_their_bounds(schema: int, gaps: list[tuple[int, int]], start: int, data: st.DataObject) -> None:
    counts, deltas, before, index, ends = {}, [], 0, start, []
    for number, (gap, length) in enumerate(gaps):
        index += gap if number else 0
        for _ in range(length):
            count = data.draw(st.integers(0, 5))
            deltas.append(count - before)
            before = count
            # Values are 256ths of a power of two, which is exact for every schema.
            counts[index << (8 - schema)] = count
            ends.append(index)
            index += 1
    told = [(start if not number else gap, length) for number, (gap, length) in enumerate(gaps)]
    row = row_of(Histogram(schema=schema, positive_spans=spans(*told), positive_deltas=deltas, timestamp=TIME_MS))
    offset = row["positive_offset"]
    found = {
        offset + place + 1 << (8 - row["scale"]): count
        for place, count in enumerate(row["positive_bucket_counts"] or [])
    }
    assert {end: count for end, count in found.items() if count} == {
        end: count for end, count in counts.items() if count
    }
    if ends:
        assert (min(found), max(found)) == (min(counts), max(counts))
