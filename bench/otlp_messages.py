"""Makes requests of OpenTelemetry as collectors send them, from a seed.

Resources and scopes are like those of SDKs. A log record has about 340 bytes, a span 130, a point 60.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from bench.samples import SERVICES, WORDS

START_NS = 1_700_000_000_000_000_000
STEP_NS = 21_600
"""The time between records: a million of them are six hours."""
POINT_STEP_NS = 15 * 10**9
"""The time between points of a series."""
PER_TRACE = 8
"""One trace has this many records or spans. Each log record belongs to a span of its own."""
HOSTS = 50
SCRAPED_HOSTS, HOST_POINTS = 20, 76
"""The number of hosts of `scrapes`, and how many points each has."""
ROUTES = [
    f"/api/v1/{word}" for word in ("orders", "carts", "users", "items", "payments", "search", "health", "login")
]
METHODS = ["GET", "GET", "GET", "POST", "PUT", "DELETE"]
SEVERITIES = [(5, "DEBUG"), (9, "INFO"), (9, "INFO"), (9, "INFO"), (13, "WARN"), (17, "ERROR")]

Make = Callable[[int, random.Random], Message]
"""Makes a request with that many records."""


def bodies(make: Make, requests: int, records: int, seed: int = 1) -> Iterator[bytes]:
    rng = random.Random(seed)
    for _ in range(requests):
        serialized: bytes = make(records, rng).SerializeToString()
        yield serialized


class Clock:
    """A clock that advances from one request to the next."""

    def __init__(self) -> None:
        self._now = START_NS

    def next(self, step: int = STEP_NS) -> int:
        self._now += step
        return self._now

    @property
    def now(self) -> int:
        return self._now


def logs() -> Make:
    clock = Clock()

    def make(records: int, rng: random.Random) -> Message:
        request = ExportLogsServiceRequest()
        level = request.resource_logs.add()
        level.resource.attributes.extend(_resource(rng))
        scope = level.scope_logs.add()
        scope.scope.name = "app.http"
        trace = b""
        for place in range(records):
            if place % PER_TRACE == 0:
                trace = rng.randbytes(16)
            number, text = rng.choice(SEVERITIES)
            now = clock.next()
            scope.log_records.add(
                time_unix_nano=now,
                observed_time_unix_nano=now + rng.randrange(10**6),
                severity_number=number,
                severity_text=text,
                body=AnyValue(string_value=_line(rng)),
                attributes=[
                    _text("http.method", rng.choice(METHODS)),
                    _text("http.route", rng.choice(ROUTES)),
                    _whole("http.status_code", rng.choice([200, 200, 200, 404, 500])),
                    _text("user.id", f"user-{rng.randrange(10_000)}"),
                ],
                trace_id=trace,
                span_id=rng.randbytes(8),
            )
        return request

    return make


def spans() -> Make:
    clock = Clock()

    def make(records: int, rng: random.Random) -> Message:
        request = ExportTraceServiceRequest()
        level = request.resource_spans.add()
        level.resource.attributes.extend(_resource(rng))
        scope = level.scope_spans.add()
        scope.scope.name = "app.http"
        trace, parent = b"", b""
        for number in range(records):
            if number % PER_TRACE == 0:
                trace, parent = rng.randbytes(16), b""
            now, span = clock.next(), rng.randbytes(8)
            scope.spans.add(
                trace_id=trace,
                span_id=span,
                parent_span_id=parent,
                name=f"{rng.choice(METHODS)} {rng.choice(ROUTES)}",
                kind=rng.randrange(1, 4),
                start_time_unix_nano=now,
                end_time_unix_nano=now + rng.randrange(10**6, 3 * 10**9),
                attributes=[
                    _whole("http.status_code", rng.choice([200, 200, 200, 404, 500])),
                    _text("user.id", f"user-{rng.randrange(10_000)}"),
                ],
            )
            parent = span
        return request

    return make


def points() -> Make:
    """Makes scrapes: each request has the next point of the same series, counters and gauges by turns."""
    series = [(f"host-{number % HOSTS}", ROUTES[number // HOSTS % len(ROUTES)][8:]) for number in range(HOSTS * 8)]
    clock = Clock()

    def make(records: int, rng: random.Random) -> Message:
        request = ExportMetricsServiceRequest()
        level = request.resource_metrics.add()
        level.resource.attributes.extend(_resource(rng))
        metrics = level.scope_metrics.add().metrics
        now = clock.next(POINT_STEP_NS)
        for number in range(0, records, 100):
            metric = metrics.add(name=f"http.server.measure_{number // 100}", unit="s")
            data = metric.gauge if number % 200 else metric.sum
            if number % 200 == 0:
                metric.sum.aggregation_temporality, metric.sum.is_monotonic = 2, True
            for host, route in series[: min(100, records - number)]:
                data.data_points.add(
                    time_unix_nano=now,
                    as_double=rng.random() * 1000,
                    attributes=[_text("host", host), _text("route", route)],
                )
        return request

    return make


def scrapes(hosts: int = 5) -> Make:
    """Makes what a Collector sends for some hosts of twenty that it scrapes by turns.

    Each has 76 points, which are 100 samples of Prometheus: 40 of counters, 34 of gauges and two of classic
    histograms.
    """
    clock = Clock()
    turn = 0

    def make(records: int, rng: random.Random) -> Message:
        nonlocal turn
        if records != hosts * HOST_POINTS:
            raise ValueError(f"{hosts} hosts have {hosts * HOST_POINTS} points, and not {records}")
        request = ExportMetricsServiceRequest()
        for _ in range(hosts):
            turn += 1
            now = clock.next(POINT_STEP_NS) if turn % SCRAPED_HOSTS == 1 else clock.now
            level = request.resource_metrics.add()
            level.resource.attributes.extend(
                [_text("service.name", "node"), _text("service.instance.id", f"host-{turn % SCRAPED_HOSTS}:9100")]
            )
            scope = level.scope_metrics.add()
            scope.scope.name = "scraper"
            _scrape(scope.metrics, now, rng)
        return request

    return make


def _scrape(metrics: Any, now: int, rng: random.Random) -> None:
    """Add the points of one host."""
    counter = metrics.add(name="http_requests", unit="1", description="Requests that were answered.").sum
    counter.aggregation_temporality, counter.is_monotonic = 2, True
    for number in range(40):
        counter.data_points.add(
            start_time_unix_nano=START_NS,
            time_unix_nano=now,
            as_double=float(rng.randrange(10**6)),
            attributes=[
                _text("route", ROUTES[number % 8]),
                _text("code", ("200", "404", "500", "502", "503")[number // 8]),
            ],
        )
    for kind, count in (("cpu_utilization", 16), ("disk_free_bytes", 10), ("queue_length", 8)):
        gauge = metrics.add(name=kind, description="A gauge.").gauge
        for number in range(count):
            gauge.data_points.add(
                time_unix_nano=now, as_double=rng.random() * 1000, attributes=[_text("device", f"{kind}-{number}")]
            )
    histogram = metrics.add(name="http_request_duration", unit="s", description="How long answers took.").histogram
    histogram.aggregation_temporality = 2
    for method in ("GET", "POST"):
        counts = [rng.randrange(1000) for _ in range(11)]
        histogram.data_points.add(
            start_time_unix_nano=START_NS,
            time_unix_nano=now,
            count=sum(counts),
            sum=rng.random() * 10**4,
            bucket_counts=counts,
            explicit_bounds=[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0],
            attributes=[_text("method", method)],
        )


def _resource(rng: random.Random) -> list[KeyValue]:
    """Returns the resource of one of sixty processes."""
    service, number = rng.choice(SERVICES), rng.randrange(10)
    return [
        _text("service.name", service),
        _text("service.namespace", "shop"),
        _text("service.instance.id", f"{service}-{number}"),
        _text("host.name", f"node-{SERVICES.index(service) * 7 + number}"),
        _text("k8s.pod.name", f"{service}-{number}-x7f9"),
        _text("deployment.environment", "production"),
    ]


def _line(rng: random.Random) -> str:
    line = {
        "msg": " ".join(rng.choices(WORDS, k=16)),
        "dur_ms": rng.randrange(3000),
        "bytes": rng.randrange(100_000),
        "peer": f"10.0.{rng.randrange(256)}.{rng.randrange(256)}",
    }
    return json.dumps(line)


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _whole(key: str, value: int) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(int_value=value))
