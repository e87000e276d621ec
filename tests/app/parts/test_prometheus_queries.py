"""Tests that samples written to the port of Prometheus can be asked for there, at once and through real processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from frazil.app.parts.log import LogPart
from frazil.app.parts.ports import PortsPart
from frazil.app.parts.query import QueryPart
from frazil.app.parts.telemetry import TelemetryPart
from frazil.formats.remote_write.messages import WriteRequest
from frazil.ops.health import HealthRegistry
from frazil.ops.metrics import create_registry
from frazil.web.ports.contributions import PROMETHEUS
from tests.doors.telemetry.support import settings
from tests.formats.remote_write.support import add

SECONDS = 170.0


class Prometheus:
    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url = url
        self._client = client

    async def write(self, *samples: tuple[float, int], tenant: str = "default", **labels: str) -> None:
        request = WriteRequest()
        add(request, *samples, **labels)
        body = pa.compress(request.SerializeToString(), "snappy", asbytes=True)
        headers = {"content-encoding": "snappy", "content-type": "application/x-protobuf", "x-scope-orgid": tenant}
        answer = await self._client.post(f"{self._url}/api/v1/write", content=body, headers=headers)
        assert answer.status_code == 204, answer.text

    async def ask(self, path: str, tenant: str = "default", **given: Any) -> httpx.Response:
        headers = {"x-scope-orgid": tenant}
        return await self._client.get(f"{self._url}/api/v1/{path}", params=given, headers=headers)

    async def post(self, path: str, **form: Any) -> httpx.Response:
        return await self._client.post(f"{self._url}/api/v1/{path}", data=form)


@asynccontextmanager
async def serving(folder: Path, **more: Any) -> AsyncIterator[Prometheus]:
    config = settings(folder, **more)
    metrics = create_registry()
    log = LogPart(config, metrics)
    door = TelemetryPart(config, metrics, lambda: log.log)
    query = QueryPart(config, metrics, log)
    ports = PortsPart(config, HealthRegistry(), metrics, lambda: [*door.contributions(), *query.endpoints])
    parts: list[LogPart | TelemetryPart | QueryPart | PortsPart] = [log, door, query, ports]
    for part in parts:
        await part.start()
    try:
        async with httpx.AsyncClient(timeout=60) as client:
            yield Prometheus(ports.url(PROMETHEUS), client)
    finally:
        for part in reversed(parts):
            await part.stop()


def test_samples_are_there_when_they_are_acknowledged(tmp_path: Path) -> None:
    now = int(time.time())

    async def scenario() -> None:
        async with asyncio.timeout(SECONDS), serving(tmp_path, query={"multi_tenant": True}) as served:
            for value in range(1, 4):
                await served.write((float(value), (now - 4 + value) * 1000), name="hits_total", job="api")
                answer = await served.ask("query", query="hits_total", time=now)
                (series,) = answer.json()["data"]["result"]
                assert series["value"] == [now, str(value)]
            await served.write((7.0, now * 1000), tenant="team-b", name="hits_total", job="b")
            both = (await served.ask("series", tenant="default|team-b", **{"match[]": "hits_total"})).json()["data"]
            assert [each["__tenant_id__"] for each in both] == ["default", "team-b"]
            assert (await served.ask("label/job/values")).json()["data"] == ["api"]

            ranged = await served.post("query_range", query="hits_total*2", start=now - 2, end=now, step=1)
            assert ranged.json()["data"]["result"][0]["values"] == [[now - 2, "4"], [now - 1, "6"], [now, "6"]]
            refused = await served.post("query", query="hits_total +")
            assert (refused.status_code, refused.json()["errorType"]) == (400, "bad_data")
            assert (await served.ask("no/such/path")).status_code == 404
            assert (await served.ask("read")).status_code == 405
            late = await served.ask("query", query="hits_total", time=now, timeout="1ms")
            assert late.status_code in (200, 503)

    asyncio.run(scenario())
