"""Idle connections are closed, and there are never more than the limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from frazil.web.peers import connected
from frazil.web.server import HttpServer
from tests.ops.support import run

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n"

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """Runs a server whose requests to `/slow` end when the test lets them."""

    def __init__(self, max_connections: int = 100, idle_seconds: float = 60.0, host: str = "127.0.0.1") -> None:
        self.metrics = CollectorRegistry()
        self.entered, self.release = asyncio.Event(), asyncio.Event()
        app = Starlette(routes=[Route("/", self._quick), Route("/slow", self._slow)])
        self.server = HttpServer(
            app, host, 0, max_connections=max_connections, idle_seconds=idle_seconds, metrics=self.metrics
        )

    async def _quick(self, request: Request) -> Response:
        return PlainTextResponse("quick")

    async def _slow(self, request: Request) -> Response:
        self.entered.set()
        await self.release.wait()
        return PlainTextResponse("slow")

    async def open(self, *sent: bytes, host: str = "127.0.0.1") -> Opened:
        reader, writer = await asyncio.open_connection(host, self.server.port)
        writer.write(b"".join(sent))
        await writer.drain()
        return reader, writer

    def closed(self, reason: str) -> float | None:
        labels = {"port": "server", "reason": reason}
        return self.metrics.get_sample_value("frazil_connections_closed_total", labels)


def serving(use: Callable[[Port], Awaitable[None]], **settings: Any) -> None:
    async def scenario() -> None:
        port = Port(**settings)
        await port.server.start()
        try:
            await use(port)
        finally:
            port.release.set()
            await port.server.stop(timeout=1)

    run(scenario())


async def is_closed(opened: Opened) -> bool:
    """Waits until the connection is closed."""
    try:
        while await opened[0].read(1000):
            pass
    except ConnectionResetError:
        pass
    opened[1].close()
    return True


def test_connections_without_a_request_end() -> None:
    async def use(port: Port) -> None:
        sent = {
            "nothing": (),
            "a letter": (b"P",),
            "half of what HTTP/2 begins with": (PREFACE[:16],),
            "HTTP/2 without a request": (PREFACE, SETTINGS),
            "half of the headers": (HEAD,),
            "one request": (HEAD, b"\r\n"),
        }
        opened = [await port.open(*parts) for parts in sent.values()]
        async with httpx.AsyncClient(timeout=30) as client:
            slow = asyncio.create_task(client.get(f"{port.server.url}/slow"))
            await port.entered.wait()
            assert all([await is_closed(each) for each in opened])
            # The connection that waits for its answer does so for longer than an idle one may stay.
            port.release.set()
            assert (await slow).text == "slow"
        assert (port.closed("idle") or 0) >= 4

    serving(use, idle_seconds=1.0)


def test_requests_over_ipv6_may_take_longer_than_idle_connections_stay() -> None:
    async def use(port: Port) -> None:
        # The second client is one of IPv4, which such a port sees as `::ffff:127.0.0.1`.
        hosts = ("::1", "127.0.0.1")
        slow = [await port.open(b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", host=h) for h in hosts]
        await port.entered.wait()
        silent = [await port.open(host=host) for host in hosts]
        assert all([await is_closed(each) for each in silent])
        port.release.set()
        for reader, writer in slow:
            assert (await reader.read()).endswith(b"slow")
            writer.close()

    serving(use, idle_seconds=1.0, host="::")


def test_headers_that_trickle_end() -> None:
    async def use(port: Port) -> None:
        reader, writer = await port.open(HEAD)

        async def trickle() -> None:
            while True:
                writer.write(b"a: b\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        assert await is_closed((reader, writer))
        trickling.cancel()
        await asyncio.gather(trickling, return_exceptions=True)

    serving(use, idle_seconds=1.0)


def test_those_beyond_the_bound_are_closed_and_never_those_that_work(caplog: pytest.LogCaptureFixture) -> None:
    async def use(port: Port) -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            slow = asyncio.create_task(client.get(f"{port.server.url}/slow"))
            await port.entered.wait()
            silent = [await port.open() for _ in range(40)]
            closing = [asyncio.create_task(is_closed(each)) for each in silent]
            while sum(each.done() for each in closing) < 30:
                await asyncio.sleep(0.05)
            # A new client is let in: connections that never had a request make room.
            for _ in range(20):
                async with httpx.AsyncClient(timeout=30) as other:
                    assert (await other.get(port.server.url)).text == "quick"
            port.release.set()
            assert (await slow).text == "slow"
        for each in silent:
            each[1].close()
        await asyncio.gather(*closing)
        while (port.closed("limit") or 0) < 31:
            await asyncio.sleep(0.05)

    with caplog.at_level(logging.WARNING, "frazil"):
        serving(use, max_connections=10)
    said = [record for record in caplog.records if "as many connections as may be" in record.message]
    assert [record.__dict__["setting"] for record in said] == ["server.max_connections"]


def test_an_answer_that_is_still_read_is_not_cut_off() -> None:
    """The answer is handed over to the server at once, but takes longer than an idle connection may stay."""
    size = 50_000_000

    async def large(request: Request) -> Response:
        return Response(bytes(size))

    async def scenario() -> None:
        server = HttpServer(Starlette(routes=[Route("/", large)]), "127.0.0.1", 0, idle_seconds=1.0)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 16)
        writer.write(HEAD + b"connection: close\r\n\r\n")
        read, loop = 0, asyncio.get_running_loop()
        start = loop.time()
        while part := await reader.read(1 << 20):
            read += len(part)
            while read > size * (loop.time() - start) / 3:
                await asyncio.sleep(0.02)
        assert read > size
        writer.close()
        await server.stop(timeout=1)

    run(scenario())


def test_only_connections_of_the_port_are_found() -> None:
    async def use(port: Port) -> None:
        other = Port()
        await other.server.start()
        mine, theirs = await port.open(), await other.open()
        while not connected(port.server.port):
            await asyncio.sleep(0.01)
        name = mine[1].get_extra_info("sockname")
        assert list(connected(port.server.port)) == [name]
        for each in (mine, theirs):
            each[1].close()
        await other.server.stop(timeout=1)

    serving(use)
