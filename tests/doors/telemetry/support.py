"""Runs telemetry doors, and builds requests for them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from prometheus_client import CollectorRegistry

from frazil.app.parts.log import LogPart
from frazil.app.parts.ports import PortsPart
from frazil.app.parts.telemetry import TelemetryPart
from frazil.config.model import Config
from frazil.log.log import Log
from frazil.ops.health import HealthRegistry
from frazil.ops.metrics import create_registry
from frazil.scan.read_api import read
from tests.servers.proxy import Proxy
from tests.servers.seaweedfs import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY

TIME = 1_700_000_000_000_000_000
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}


def settings(folder: Path, **more: Any) -> Config:
    """Returns settings with all doors on free ports."""
    doors: dict[str, dict[str, Any]] = {
        "otlp": {"http": {"port": 0}, "grpc": {"port": 0}},
        "loki": {"port": 0},
        "prometheus": {"port": 0},
    }
    opened = {name: {"enabled": True, **ports, **more.pop(name, {})} for name, ports in doors.items()}
    return Config.model_validate({"data_dir": folder, **opened, **more})


class Served:
    """Running doors, with a client."""

    def __init__(
        self,
        config: Config,
        metrics: CollectorRegistry,
        log: LogPart,
        door: TelemetryPart,
        ports: PortsPart,
        client: httpx.AsyncClient,
    ) -> None:
        self.config = config
        self._metrics = metrics
        self.log_part = log
        self.door = door
        self._ports = ports
        self.client = client

    @property
    def log(self) -> Log:
        return self.log_part.log

    def url(self, api: str) -> str:
        return self._ports.url(api)

    async def post(self, path: str, body: bytes, api: str = "otlp", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(self.url(api) + path, content=body, headers={**PROTOBUF, **named})

    def stored(self, topic: str = "logs") -> int:
        """Returns the number of records in the log."""
        return sum(writer.next_offset for writer in self.log.writers if writer.topic == topic)

    def answered(self, status: int) -> int:
        """Returns the number of OTLP log requests over HTTP that were answered with this status."""
        labels = {"topic": "logs", "protocol": "otlp-http", "status": str(status)}
        return int(self._metrics.get_sample_value("frazil_telemetry_requests_total", labels) or 0)

    def in_flight(self) -> int:
        """Returns the bytes of requests in flight."""
        return int(self._metrics.get_sample_value("frazil_telemetry_in_flight_bytes") or 0)


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[Served]:
    metrics = create_registry()
    log = LogPart(config, metrics)
    door = TelemetryPart(config, metrics, lambda: log.log)
    await log.start()
    health = HealthRegistry()
    ports = PortsPart(config, health, metrics, door.contributions)
    await door.start()
    await ports.start()
    health.mark_ready()
    try:
        async with httpx.AsyncClient(timeout=60) as client:
            yield Served(config, metrics, log, door, ports, client)
    finally:
        await ports.stop()
        await door.stop()
        await log.stop()


def run(config: Config, scenario: Callable[[Served], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120), serving(config) as served:
            await scenario(served)

    asyncio.run(bounded())


def logs_request(*bodies: str, time: int = TIME, service: str = "shop") -> ExportLogsServiceRequest:
    """Returns a request with a record for each text, a nanosecond apart."""
    request = ExportLogsServiceRequest()
    level = request.resource_logs.add()
    level.resource.attributes.add(key="service.name").value.string_value = service
    records = level.scope_logs.add().log_records
    for number, text in enumerate(bodies):
        records.add(time_unix_nano=time + number if time else 0).body.string_value = text
    return request


def rows(config: Config, topic: str = "logs", tenant: str = "default") -> pa.Table:
    """Returns the rows that a tenant can read."""
    return read(topic, config=config, tenant=tenant).table()


async def among_bad_ones(
    chance: random.Random, good: Callable[[int], Awaitable[int]], bad: Callable[[], Awaitable[None]]
) -> list[int]:
    """Sends many requests at once, half of them bad, and returns the numbers sent in good ones. `good` returns its
    status, which must be a success."""
    sent: list[int] = []

    async def send(number: int) -> None:
        if chance.random() < 0.5:
            await bad()
        else:
            assert await good(number) in (200, 204)
            sent.append(number)

    for start in range(0, 300, 50):
        await asyncio.gather(*(send(number) for number in range(start, start + 50)))
    return sorted(sent)


def small_log_on(proxy: Proxy, prefix: str) -> dict[str, Any]:
    """Returns settings of a log that soon fills up when its store, which is behind a proxy, is away."""
    return {
        "store": {
            "url": f"s3://{BUCKET}/{prefix}",
            "options": {"endpoint": proxy.endpoint, "region": "us-east-1"},
            "access_key_id": ACCESS_KEY_ID,
            "secret_access_key": SECRET_ACCESS_KEY,
            "timeout_seconds": 2,
        },
        "log": {"max_tail_mb": 1, "append_timeout_seconds": 0.2, "seal": {"interval_seconds": 0.2}},
    }


async def sent_while_away(proxy: Proxy, send: Callable[[int], Awaitable[int]], stored: int, full: int) -> list[int]:
    """Sends numbers before, while and after the store is away, and returns those that were acknowledged. `stored` and
    `full` are the expected statuses."""
    assert await send(0) == stored
    proxy.down()
    statuses = [await send(number) for number in range(1, 12)]
    assert (statuses[0], statuses[-1]) == (stored, full)
    proxy.up()
    while await send(100) != stored:
        await asyncio.sleep(0.2)
    return [0, *(number for number, status in enumerate(statuses, 1) if status == stored), 100]
