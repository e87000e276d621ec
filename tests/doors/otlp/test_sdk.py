"""The exporters of OpenTelemetry's own Python SDK send, and everything arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode

from tests.doors.telemetry.support import Served, rows, run, settings

Exporter = Callable[[Served], Any]

RESOURCE = Resource.create({"service.name": "shop", "service.version": "1.2", "replica": 3})


def http(kind: type) -> Exporter:
    def make(served: Served) -> Any:
        path = {"OTLPLogExporter": "logs", "OTLPSpanExporter": "traces", "OTLPMetricExporter": "metrics"}[
            kind.__name__
        ]
        return kind(endpoint=f"{served.url('otlp')}/v1/{path}", compression=Compression.Gzip)

    return make


def rpc(kind: type) -> Exporter:
    def make(served: Served) -> Any:
        return kind(endpoint=f"http://127.0.0.1:{served.door.grpc_port}", insecure=True)

    return make


@pytest.mark.filterwarnings("ignore:`LoggingHandler`:DeprecationWarning")
@pytest.mark.parametrize("exporter", [http(HttpLogs), rpc(GrpcLogs)], ids=["http", "grpc"])
def test_logs(exporter: Exporter, tmp_path: Path) -> None:
    config = settings(tmp_path)

    def work(served: Served) -> None:
        provider = LoggerProvider(resource=RESOURCE)
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter(served)))
        logger = logging.Logger("orders")
        logger.addHandler(LoggingHandler(logger_provider=provider))
        for number in range(500):
            logger.warning(
                "order %d", number, extra={"amount": number / 2, "number": number, "paid": number % 2 == 0}
            )
        assert provider.force_flush(60_000)
        provider.shutdown()

    async def scenario(served: Served) -> None:
        await asyncio.to_thread(work, served)
        found = (await asyncio.to_thread(rows, config)).to_pylist()
        assert sorted(row["body"] for row in found) == sorted(f"order {number}" for number in range(500))
        row = next(row for row in found if row["body"] == "order 7")
        assert row["service_name"] == "shop"
        assert dict(row["resource_attributes"])["replica"] == "3"
        assert row["scope_name"] == "orders"
        assert (row["severity_number"], row["severity_text"]) == (13, "WARN")
        attributes = dict(zip(dict(row["attributes"]), row["attributes_types"], strict=True))
        assert dict(row["attributes"])["amount"] == "3.5"
        assert (attributes["amount"], attributes["number"], attributes["paid"]) == ("d", "i", "b")

    run(config, scenario)


@pytest.mark.parametrize("exporter", [http(HttpSpans), rpc(GrpcSpans)], ids=["http", "grpc"])
def test_spans(exporter: Exporter, tmp_path: Path) -> None:
    config = settings(tmp_path)

    def work(served: Served) -> None:
        provider = TracerProvider(resource=RESOURCE)
        provider.add_span_processor(BatchSpanProcessor(exporter(served)))
        tracer = provider.get_tracer("orders", "0.1")
        for number in range(200):
            with tracer.start_as_current_span("order", attributes={"number": number}) as parent:
                with tracer.start_as_current_span("pay", attributes={"parts": [1, 2]}) as span:
                    span.add_event("retried", {"times": 2})
                parent.set_status(Status(StatusCode.ERROR, "no money"))
        assert provider.force_flush(60_000)
        provider.shutdown()

    async def scenario(served: Served) -> None:
        await asyncio.to_thread(work, served)
        found = (await asyncio.to_thread(rows, config, "spans")).to_pylist()
        assert len(found) == 400
        parents = {row["span_id"]: row for row in found if row["name"] == "order"}
        children = [row for row in found if row["name"] == "pay"]
        assert sorted(dict(row["attributes"])["number"] for row in parents.values()) == sorted(map(str, range(200)))
        assert {row["parent_span_id"] for row in children} == set(parents)
        assert all(row["trace_id"] == parents[row["parent_span_id"]]["trace_id"] for row in children)
        row = children[0]
        assert (dict(row["attributes"]), row["attributes_types"]) == ({"parts": "[1,2]"}, "a")
        assert [(event["name"], dict(event["attributes"])) for event in row["events"]] == [
            ("retried", {"times": "2"})
        ]
        assert row["duration_nanos"] > 0
        parent = parents[row["parent_span_id"]]
        assert (parent["status_code"], parent["status_message"]) == (2, "no money")
        assert (parent["scope_name"], parent["scope_version"]) == ("orders", "0.1")

    run(config, scenario)


@pytest.mark.parametrize("exporter", [http(HttpMetrics), rpc(GrpcMetrics)], ids=["http", "grpc"])
def test_metrics(exporter: Exporter, tmp_path: Path) -> None:
    config = settings(tmp_path)

    def work(served: Served) -> None:
        reader = PeriodicExportingMetricReader(exporter(served), export_interval_millis=600_000)
        provider = MeterProvider([reader], RESOURCE)
        meter = provider.get_meter("orders")
        for number in range(100):
            meter.create_counter("orders", unit="1").add(1, {"kind": "a" if number % 2 else "b"})
            meter.create_histogram("duration", unit="s").record(number / 100)
            meter.create_gauge("stock").set(number)
        assert provider.force_flush(60_000)
        provider.shutdown()

    async def scenario(served: Served) -> None:
        await asyncio.to_thread(work, served)
        found = (await asyncio.to_thread(rows, config, "metrics")).to_pylist()
        newest = {(row["prometheus_name"], tuple(row["attributes"])): row for row in found}
        assert newest["orders_total", (("kind", "a"),)]["value_int"] == 50
        assert newest["orders_total", (("kind", "b"),)]["value_int"] == 50
        histogram = newest["duration_seconds", ()]
        assert (histogram["metric_type"], histogram["count"], sum(histogram["bucket_counts"])) == (
            "histogram",
            100,
            100,
        )
        assert histogram["sum"] == pytest.approx(49.5)
        assert newest["stock", ()]["value_int"] == 99
        assert len({row["series_id"] for row in newest.values()}) == 4
        assert {row["service_name"] for row in found} == {"shop"}

    run(config, scenario)
