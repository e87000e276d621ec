"""Tests Loki's API on a real server: queries in other processes, and lines that are followed while they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import websockets
from prometheus_client import CollectorRegistry

from frazil.app.parts.log import LogPart
from frazil.app.parts.query import QueryPart
from frazil.config.model import Config
from frazil.formats.loki import push
from frazil.formats.loki.messages import PushRequest
from frazil.formats.otlp import logs
from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.rows import Arrival
from frazil.web.ports.contributions import LOKI
from frazil.web.ports.port_app import PortApp
from frazil.web.ports.request_metrics import request_metrics
from frazil.web.server import HttpServer
from tests.formats.loki.support import NOW, message

_SECONDS = 170.0


class Served(NamedTuple):
    client: httpx.AsyncClient
    socket_url: str
    log: LogPart

    async def push(self, *lines: str) -> None:
        sent = message(({"app": "shop"}, [(NOW + number, line, {}) for number, line in enumerate(lines)]))
        rows = push.to_rows(decode(PushRequest, [sent]), Arrival(["default"], NOW)).batch
        writer = await asyncio.to_thread(self.log.log.writer, "logs", logs.SCHEMA)
        await writer.append_async(rows)


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[Served]:
    metrics = CollectorRegistry()
    log = LogPart(config, metrics)
    part = QueryPart(config, metrics, log)
    endpoints = [each for each in part.endpoints if each.port == LOKI]
    server = HttpServer(PortApp(LOKI, endpoints, request_metrics(metrics)), "127.0.0.1", 0)
    await log.start()
    await part.start()
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=_SECONDS) as client:
            yield Served(client, server.url.replace("http", "ws", 1), log)
    finally:
        await server.stop()
        await part.stop()
        await log.stop()


def test_lines_are_queried_and_followed(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = Config.model_validate({"data_dir": tmp_path, "loki": {"query": {"max_tails": 1}}})
        async with asyncio.timeout(_SECONDS), serving(config) as served:
            await queries(served)
            await tails(served)

    asyncio.run(scenario())


async def queries(served: Served) -> None:
    path = "/loki/api/v1/query_range"
    given: dict[str, str | int] = {"query": '{app="shop"}', "start": NOW, "end": NOW + 10}
    empty = await served.client.get(path, params=given)
    assert (empty.status_code, empty.json()["data"]["result"]) == (200, [])
    await served.push("first")
    found = await served.client.get(path, params=given)
    assert found.headers["content-type"] == "application/json; charset=UTF-8"
    assert "content-length" in found.headers
    assert [stream["values"] for stream in found.json()["data"]["result"]] == [[[str(NOW), "first"]]]
    wrong = await served.client.post(path, data={"query": "{app="})
    assert wrong.status_code == 400
    assert wrong.text == "parse error at line 1, col 6: syntax error: unexpected $end, expecting STRING"
    assert wrong.headers["content-type"] == "text/plain; charset=utf-8"
    names = await served.client.get("/loki/api/v1/label/app/values", params={"start": NOW, "end": NOW + 1})
    assert names.json() == {"status": "success", "data": ["shop"]}


async def tails(served: Served) -> None:
    url = f"{served.socket_url}/loki/api/v1/tail?query=%7Bapp%3D%22shop%22%7D&start={NOW}"
    async with websockets.connect(url) as socket:
        assert lines(await socket.recv()) == ["first"]
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(url)
        assert refused.value.response.status_code == 429
        await served.push("second", "third")
        assert lines(await socket.recv()) == ["second", "third"]
    plain = await served.client.get("/loki/api/v1/tail")
    assert (plain.status_code, plain.text) == (400, "Bad Request")
    headers = {"accept": "application/x-ndjson"}
    given: dict[str, str | int] = {"query": '{app="shop"}', "start": NOW, "limit": 1}
    async with served.client.stream("GET", "/loki/api/v1/tail", params=given, headers=headers) as answer:
        found = (lines(line) async for line in answer.aiter_lines() if line)
        assert await anext(found) == ["third"]


def lines(frame: str | bytes) -> list[str]:
    return [line for stream in json.loads(frame)["streams"] for _, line in stream["values"]]
