"""OpenTelemetry's exporter for remote write sends metrics, and they arrive."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from opentelemetry.exporter.prometheus_remote_write import PrometheusRemoteWriteMetricsExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from tests.doors.prometheus.support import PATH
from tests.doors.telemetry.support import Served, rows, run, settings


def _send(url: str) -> None:
    exporter = PrometheusRemoteWriteMetricsExporter(url + PATH, headers={"X-Scope-OrgID": "team-a"})
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=600_000)
    provider = MeterProvider([reader], Resource({"job": "shop"}))
    meter = provider.get_meter("tests")
    counter = meter.create_counter("orders")
    counter.add(3, {"customer": "a"})
    counter.add(4, {"customer": "b"})
    meter.create_histogram("took", unit="seconds", explicit_bucket_boundaries_advisory=[1, 5]).record(2.5)
    assert provider.force_flush()
    counter.add(1, {"customer": "a"})
    provider.shutdown()


def test_everything_arrives(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        await asyncio.to_thread(_send, served.url("prometheus"))
        found = (await asyncio.to_thread(rows, config, "metrics", "team-a")).to_pylist()
        assert {row["service_name"] for row in found} == {"shop"}
        samples = [(row["prometheus_name"], dict(row["attributes"]), row["value_double"]) for row in found]
        orders = [(labels["customer"], value) for name, labels, value in samples if name == "orders"]
        assert orders == [("a", 3.0), ("b", 4.0), ("a", 4.0), ("b", 4.0)]
        took = [(labels["le"], value) for name, labels, value in samples if name == "took_seconds"]
        assert took == [("1", 0.0), ("5", 1.0), ("+Inf", 0.0)] * 2
        assert [value for name, _, value in samples if name == "took_seconds_sum"] == [2.5, 2.5]

    run(config, scenario)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
