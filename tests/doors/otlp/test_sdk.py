"""The exporters of OpenTelemetry's own SDK for Python send, and everything arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from tests.doors.otlp.support import Served, rows, run, settings

Exporter = Callable[[Served], Any]

RESOURCE = Resource.create({"service.name": "shop", "service.version": "1.2", "replica": 3})


def http(kind: type) -> Exporter:
    def make(served: Served) -> Any:
        path = {"OTLPLogExporter": "logs", "OTLPSpanExporter": "traces", "OTLPMetricExporter": "metrics"}[
            kind.__name__
        ]
        return kind(endpoint=f"{served.door.http_url}/v1/{path}", compression=Compression.Gzip)

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
