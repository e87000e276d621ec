"""Serves topics over HTTP in this process, on a real log and a real catalog."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from frazil.app.parts.log import LogPart
from frazil.app.parts.topics import TopicsPart
from frazil.config.model import Config
from frazil.log.segments.trim import trim
from frazil.ops.health import HealthRegistry
from frazil.ops.metrics import create_registry
from frazil.web.answers import ARROW_STREAM
from frazil.web.ports.operations import create_app
from frazil.web.server import HttpServer
from tests.ops.support import run

NDJSON = "application/x-ndjson"


class Served:
    def __init__(self, part: TopicsPart, log: LogPart, client: httpx.AsyncClient) -> None:
        self.part = part
        self.log = log.log
        self.client = client

    async def ask(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        answer = await self.client.request(method, path, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def create(self, topic: str, partitions: int = 1) -> None:
        await self.ask("PUT", f"/topics/{topic}?partitions={partitions}", 201)

    async def store(self, topic: str, *payloads: str, query: str = "") -> Any:
        lines = "".join(json.dumps({"payload": payload}) + "\n" for payload in payloads)
        return await self.lines(topic, lines, query=query)

    async def lines(self, topic: str, body: str | bytes, status: int = 200, query: str = "") -> Any:
        return await self.ask(
            "POST", f"/topics/{topic}{query}", status, content=body, headers={"content-type": NDJSON}
        )

    async def arrow(self, topic: str, body: bytes, status: int = 200, query: str = "") -> Any:
        return await self.ask(
            "POST", f"/topics/{topic}{query}", status, content=body, headers={"content-type": ARROW_STREAM}
        )

    async def payloads(self, path: str) -> list[str]:
        return [message["payload"] for message in (await self.ask("GET", path))["messages"]]

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.stream("GET", path, headers=given) as answer:
            if answer.status_code != 200:
                await answer.aread()
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield _events(answer)

    def seal(self, topic: str, partition: int = 0) -> None:
        (writer,) = [each for each in self.log.writers if (each.topic, each.partition) == (topic, partition)]
        writer.seal_all()

    def lose(self, topic: str, before: int, partition: int = 0) -> None:
        """Removes segments before an offset that no table has."""
        now = self.log.world.clock.now_ms()
        trim(self.log.store, topic, partition, needed_from=before, grace_seconds=0, now_ms=now)


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, str]]:
    event: dict[str, str] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(":")
        if name:
            event[name] = value.removeprefix(" ")
        elif not line:
            if "data" in event:
                yield event
            event = {}


def encoded(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def serving(folder: Path, use: Callable[[Served], Awaitable[None]], **settings: Any) -> None:
    """Stops everything before it returns."""
    closed = {"danube": {"enabled": False}}
    config = Config.model_validate({"data_dir": folder / "data", **closed, **settings})

    async def work() -> None:
        metrics = create_registry()
        log = LogPart(config, metrics)
        part = TopicsPart(config, metrics, lambda: log.log)
        server = HttpServer(create_app(HealthRegistry(), metrics, part.endpoints), "127.0.0.1", 0)
        await server.start()
        await log.start()
        await part.start()
        try:
            async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
                await use(Served(part, log, client))
        finally:
            await part.stop()
            await log.stop()
            await server.stop()

    run(work())
