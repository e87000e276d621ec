"""Bodies that break the rules of HTTP are refused with the reason, on every port, and nothing of them is stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from frazil.app.parts.log import LogPart
from frazil.app.parts.ports import PortsPart
from frazil.app.parts.query import QueryPart
from frazil.app.parts.telemetry import TelemetryPart
from frazil.app.parts.topics import TopicsPart
from frazil.config.model import Config
from frazil.ops.health import HealthRegistry
from frazil.ops.metrics import create_registry
from frazil.web import bodies
from frazil.web.ports.operations import create_app
from frazil.web.server import HttpServer
from tests.doors.telemetry.support import settings
from tests.ops.support import run

CHUNKED, SIZED = "transfer-encoding: chunked", "content-length: 50"
MALFORMED = {
    "a size that is no number": (CHUNKED, b"zz\r\nabc\r\n0\r\n\r\n"),
    "a bad size after a good chunk": (CHUNKED, b"3\r\nabc\r\nzz\r\n"),
    "a size beyond all numbers": (CHUNKED, b"f" * 20 + b"\r\nabc\r\n"),
    "a chunk that is longer than it says": (CHUNKED, b"3\r\nabcdef\r\n0\r\n\r\n"),
}
CUT_OFF = {
    "half of what is announced": (SIZED, b"abc"),
    "chunks without the last": (CHUNKED, b"3\r\nabc\r\n"),
    "half a chunk": (CHUNKED, b"9\r\nabc"),
}
PROTOBUF = "content-type: application/x-protobuf"
PLACES = {
    "8080 messages": ("server", "/topics/t", "content-type: text/plain"),
    "8080 lines": ("server", "/topics/t", "content-type: application/x-ndjson"),
    "8080 acknowledgements": ("server", "/topics/t/subscriptions/s/ack", "content-type: text/plain"),
    "8080 sql": ("server", "/sql", "content-type: text/plain"),
    "4318": ("otlp", "/v1/logs", PROTOBUF),
    "3100": ("loki", "/loki/api/v1/push", f"{PROTOBUF}\r\ncontent-encoding: snappy"),
    "9090": ("prometheus", "/api/v1/write", f"{PROTOBUF}\r\ncontent-encoding: snappy"),
}


@asynccontextmanager
async def all_ports(folder: Path) -> AsyncIterator[dict[str, httpx.URL]]:
    config: Config = settings(folder, danube={"enabled": False})
    metrics = create_registry()
    log = LogPart(config, metrics)
    topics, query = TopicsPart(config, metrics, lambda: log.log), QueryPart(config, metrics, log)
    doors = TelemetryPart(config, metrics, lambda: log.log)
    ports = PortsPart(config, HealthRegistry(), metrics, doors.contributions)
    server = HttpServer(
        create_app(HealthRegistry(), metrics, [*topics.endpoints, *query.endpoints]), "127.0.0.1", 0, metrics=metrics
    )
    await server.start()
    for part in (log, topics, doors, ports):
        await part.start()
    try:
        async with httpx.AsyncClient(base_url=server.url) as client:
            await client.put("/topics/t")
            await client.put("/topics/t/subscriptions/s")
            yield {"server": httpx.URL(server.url)} | {
                api: httpx.URL(ports.url(api)) for api in ("otlp", "loki", "prometheus")
            }
            # Everything works on as before, and nothing was stored.
            assert (await client.get("/topics/t")).json()["messages"] == []
        assert [writer.next_offset for writer in log.log.writers if writer.topic != "t"] in ([], [0], [0, 0])
    finally:
        for part in (ports, doors, topics, log):
            await part.stop()
        await server.stop()


async def answered(url: httpx.URL, path: str, *sent: str | bytes, half_closed: bool = False) -> tuple[int, str]:
    """The status and the rest of the answer to a request of these headers, the last being the body."""
    reader, writer = await asyncio.open_connection(url.host, url.port)
    *headers, body = sent
    head = "\r\n".join([f"POST {path} HTTP/1.1", "host: localhost", *map(str, headers), "", ""])
    writer.write(head.encode() + (body if isinstance(body, bytes) else body.encode()))
    await writer.drain()
    if half_closed:
        writer.write_eof()
    line = await reader.readline()
    rest = (await reader.read()).decode("latin-1") if b"connection: close" in line else ""
    rest = rest or (await reader.read(4000)).decode("latin-1")
    writer.close()
    return int(line.split()[1]), rest


@pytest.fixture
def no_errors(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING)
    return caplog


def test_malformed_and_incomplete_bodies_are_400(tmp_path: Path, no_errors: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with all_ports(tmp_path) as ports:
            for place, (port, path, kind) in PLACES.items():
                for what, (size, body) in {**MALFORMED, **CUT_OFF}.items():
                    half = what in CUT_OFF
                    status, rest = await answered(ports[port], path, kind, size, body, half_closed=half)
                    assert (status, "Traceback" in rest) == (400, False), (place, what, rest)
                    assert "The body is not complete" in rest, (place, what, rest)

    run(scenario())
    assert [record.message for record in no_errors.records] == []


def test_clients_that_go_leave_no_trace(tmp_path: Path, no_errors: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with all_ports(tmp_path) as ports:
            for port, path, kind in PLACES.values():
                for size, body in CUT_OFF.values():
                    url = ports[port]
                    _, writer = await asyncio.open_connection(url.host, url.port)
                    writer.write(
                        f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{kind}\r\n{size}\r\n\r\n".encode() + body
                    )
                    await writer.drain()
                    writer.transport.abort()
                # It answers others on the same port.
                assert (await answered(url, path, kind, *MALFORMED["a size that is no number"]))[0] == 400

    run(scenario())
    assert [record.message for record in no_errors.records] == []


def test_bodies_that_stop_coming_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SILENCE_SECONDS", 0.2)

    async def scenario() -> None:
        async with all_ports(tmp_path) as ports:
            for place, (port, path, kind) in PLACES.items():
                status, rest = await answered(ports[port], path, kind, SIZED, b"abc")
                assert status == (408 if port == "server" else 503), (place, status, rest)
                assert "nothing came of it for 0.2 seconds" in rest, place

    run(scenario())


def test_bodies_that_trickle_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.3)

    async def scenario() -> None:
        async with all_ports(tmp_path) as ports:
            for place, (port, path, kind) in PLACES.items():
                url = ports[port]
                reader, writer = await asyncio.open_connection(url.host, url.port)
                head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{kind}\r\ncontent-length: 100000\r\n\r\n"
                writer.write(head.encode())
                answer = asyncio.create_task(reader.readline())
                while not answer.done():
                    writer.write(b"a")
                    await asyncio.sleep(0.02)
                assert int((await answer).split()[1]) == (408 if port == "server" else 503), place
                writer.close()

    run(scenario())


def test_a_tenant_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    twice = "x-scope-orgid: a\r\nX-Scope-OrgID: b"

    async def scenario() -> None:
        async with all_ports(tmp_path) as ports:
            for place in ("8080 sql", "4318", "3100", "9090"):
                port, path, kind = PLACES[place]
                status, rest = await answered(ports[port], path, kind, twice, "content-length: 1", b"a")
                assert status == 400, (place, rest)
                assert "X-Scope-OrgID is there 2 times" in rest, place

    run(scenario())


def test_pages_of_others_cannot_write_through_a_browser(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with all_ports(tmp_path) as ports:
            for port in ("otlp", "loki", "prometheus"):
                path = next(path for name, path, _ in PLACES.values() if name == port)
                status, rest = await answered(
                    ports[port], path, "origin: https://evil.example", CHUNKED, b"0\r\n\r\n"
                )
                assert (status, "server.allowed_hosts" in rest) == (403, True), port

    run(scenario())
