"""Tests that data points of OTLP become the series that Prometheus has for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    ResourceMetrics,
)

from frazil.doors.otlp.signals import METRICS
from frazil.query.promql.engine.query import query_instant, query_range
from frazil.query.promql.histograms.histogram import Histogram
from frazil.query.promql.parse import parse_selector
from frazil.query.promql.storage.series_listing import SeriesListing
from frazil.query.promql.storage.source import StoredSamples
from frazil.query.promql.storage.unit_index import LabelRules
from frazil.scan.scanner import TopicScanner
from tests.formats.telemetry.support import rows_of
from tests.query.promql.plain_context import PlainContext
from tests.query.support import World

TENANT = "tenant-0"
SECOND = 1_000_000_000
BEGIN_MS = 1_700_000_000_000
RESOURCE = {"service.name": "shop", "service.namespace": "eu", "service.instance.id": "i1", "cloud.region": "here"}


class Metrics:
    """Has a topic of metrics, some in the table and some in the log, and asks it."""

    def __init__(self, world: World) -> None:
        self.world = world

    def write(self, *requests: ExportMetricsServiceRequest, move: bool = False) -> None:
        for request in requests:
            self.world.append("metrics", rows_of(METRICS, request).batch)
        if move:
            self.world.seal("metrics")
            self.world.move("metrics")

    def source(self, *promoted: str) -> StoredSamples:
        context = PlainContext(self.world.config, TopicScanner(self.world.config))
        return StoredSamples(context, (TENANT,), promoted)

    def ask(self, query: str, second: int = 60, *promoted: str) -> dict[str, float]:
        """Returns the values at a moment, by the labels other than job and instance."""
        answer = query_instant(self.source(*promoted), query, BEGIN_MS + second * 1000)
        assert answer.matrix is not None
        matrix = answer.matrix
        return {shown(labels): float(matrix.values[at, 0]) for at, labels in enumerate(matrix.labels.rows())}

    def histogram(self, query: str, second: int = 60) -> Histogram:
        answer = query_instant(self.source(), query, BEGIN_MS + second * 1000)
        assert answer.matrix is not None
        assert answer.matrix.cells is not None
        found: Histogram = answer.matrix.cells[0, 0]
        return found


def shown(labels: dict[str, str]) -> str:
    assert labels.pop("job", "eu/shop") == "eu/shop"
    assert labels.pop("instance", "i1") == "i1"
    name = labels.pop("__name__", "")
    return name + ",".join(f"{key}={text}" for key, text in sorted(labels.items()))


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Metrics]:
    with World(tmp_path) as world:
        yield Metrics(world)


def request() -> tuple[ExportMetricsServiceRequest, Any]:
    found = ExportMetricsServiceRequest()
    level: ResourceMetrics = found.resource_metrics.add()
    for key, text in RESOURCE.items():
        level.resource.attributes.add(key=key).value.string_value = text
    return found, level.scope_metrics.add().metrics


def point(data: Any, second: int, **values: Any) -> Any:
    found = data.data_points.add(time_unix_nano=BEGIN_MS * 1_000_000 + second * SECOND, **values)
    found.attributes.add(key="http.route").value.string_value = "/a"
    return found


def histogram_request(second: int, factor: int) -> ExportMetricsServiceRequest:
    found, metrics = request()
    data = metrics.add(name="took", unit="s").histogram
    data.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    counts = [factor, 2 * factor, 3 * factor]
    point(data, second, count=6 * factor, sum=1.5 * factor, bucket_counts=counts, explicit_bounds=[0.1, 2])
    return found


def test_classic_histograms_have_cumulative_buckets_hot_and_cold(metrics: Metrics) -> None:
    metrics.write(histogram_request(0, 1), move=True)
    metrics.write(histogram_request(30, 2))
    assert metrics.ask("took_seconds_bucket", 29) == {
        "took_seconds_buckethttp_route=/a,le=0.1": 1.0,
        "took_seconds_buckethttp_route=/a,le=2": 3.0,
        "took_seconds_buckethttp_route=/a,le=+Inf": 6.0,
    }
    assert metrics.ask("took_seconds_count") == {"took_seconds_counthttp_route=/a": 12.0}
    assert metrics.ask("took_seconds_sum") == {"took_seconds_sumhttp_route=/a": 3.0}
    assert metrics.ask("increase(took_seconds_bucket{le='2'}[1m:30s])")
    assert metrics.ask("histogram_quantile(0.5, took_seconds_bucket)") == {"http_route=/a": 2.0}
    assert metrics.ask('{__name__=~"took_seconds_(sum|count)"}').keys() == {
        "took_seconds_sumhttp_route=/a",
        "took_seconds_counthttp_route=/a",
    }
    assert metrics.ask("took_seconds") == {}


def test_exponential_histograms_are_native(metrics: Metrics) -> None:
    found, given = request()
    data = given.add(name="size").exponential_histogram
    data.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    made = point(data, 0, count=7, sum=9.0, scale=0, zero_count=1, zero_threshold=0.5)
    made.positive.offset = -1
    made.positive.bucket_counts.extend([1, 0, 3])
    made.negative.offset = 2
    made.negative.bucket_counts.extend([2])
    metrics.write(found)
    histogram = metrics.histogram("size")
    assert (histogram.count, histogram.sum, histogram.zero_count, histogram.zero_threshold) == (7, 9, 1, 0.5)
    # The bucket of offset -1 is (0.5, 1], which Prometheus numbers 0.
    assert (histogram.positive.indexes.tolist(), histogram.positive.counts.tolist()) == ([0, 2], [1, 3])
    assert (histogram.negative.indexes.tolist(), histogram.negative.counts.tolist()) == ([3], [2])


def test_summaries_have_quantiles(metrics: Metrics) -> None:
    found, given = request()
    made = point(given.add(name="lag").summary, 0, count=3, sum=6.0)
    for quantile, value in ((0.5, 2.0), (1.0, 3.0)):
        made.quantile_values.add(quantile=quantile, value=value)
    metrics.write(found)
    assert metrics.ask("lag") == {"laghttp_route=/a,quantile=0.5": 2.0, "laghttp_route=/a,quantile=1": 3.0}
    assert metrics.ask("lag_count") == {"lag_counthttp_route=/a": 3.0}


def test_a_value_that_was_not_recorded_ends_the_series(metrics: Metrics) -> None:
    found, given = request()
    data = given.add(name="load").gauge
    point(data, 0, as_int=3)
    point(data, 30, flags=1)
    metrics.write(found)
    assert metrics.ask("load", 29) == {"loadhttp_route=/a": 3.0}
    assert metrics.ask("load", 30) == {}


def test_resources_are_told_by_target_info(metrics: Metrics) -> None:
    found, given = request()
    point(given.add(name="load").gauge, 0, as_double=1.5)
    metrics.write(found, move=True)
    assert metrics.ask("target_info") == {"target_infocloud_region=here": 1.0}
    assert metrics.ask("info(load)") == {"loadcloud_region=here,http_route=/a": 1.5}
    assert metrics.ask("load", 60, "cloud.region") == {"loadcloud_region=here,http_route=/a": 1.5}


def test_deltas_and_kinds_are_never_merged(metrics: Metrics) -> None:
    found, given = request()
    point(given.add(name="seen").gauge, 0, as_double=1)
    data = given.add(name="seen").sum
    data.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    point(data, 0, as_double=2)
    data = given.add(name="seen").sum
    data.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    point(data, 0, as_double=3)
    metrics.write(found)
    assert metrics.ask("seen") == {
        "seen__type__=gauge,http_route=/a": 1.0,
        "seen__type__=sum,http_route=/a": 2.0,
        "seen__temporality__=delta,http_route=/a": 3.0,
    }


def test_of_two_samples_at_one_time_the_later_one_in_the_log_counts(metrics: Metrics) -> None:
    for value in (1, 2, 3):
        found, given = request()
        point(given.add(name="load").gauge, 0, as_double=value)
        metrics.write(found, move=value == 1)
    assert metrics.ask("load") == {"loadhttp_route=/a": 3.0}
    metrics.world.seal("metrics")
    metrics.world.move("metrics")
    assert metrics.ask("load") == {"loadhttp_route=/a": 3.0}


def test_labels_and_series_are_listed(metrics: Metrics) -> None:
    metrics.write(histogram_request(0, 1), move=True)
    source = metrics.source()

    def listing(start: int | None = None) -> SeriesListing:
        return SeriesListing(source.context, (TENANT,), LabelRules(), start, None)

    assert listing().names([]) == ["__name__", "cloud_region", "http_route", "instance", "job", "le"]
    assert listing().values("__name__", []) == [
        "target_info",
        "took_seconds_bucket",
        "took_seconds_count",
        "took_seconds_sum",
    ]
    assert listing().values("le", [parse_selector("took_seconds_bucket")]) == ["+Inf", "0.1", "2"]
    assert listing().series([parse_selector('{le="2"}')]).size == 1
    assert listing(BEGIN_MS + 1).names([]) == []


def test_other_tenants_and_a_missing_topic_have_nothing(metrics: Metrics) -> None:
    assert metrics.ask("up") == {}
    metrics.write(histogram_request(0, 1))
    other = StoredSamples(metrics.source().context, ("somebody",))
    answer = query_range(other, "took_seconds_count", BEGIN_MS, BEGIN_MS + 1000, 1000)
    assert answer.matrix is not None
    assert answer.matrix.size == 0
