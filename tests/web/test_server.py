from __future__ import annotations

import asyncio
import logging
import signal
import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from frazil.errors import ConfigError
from frazil.web.server import HttpServer
from tests.ops.support import run


def hello() -> Starlette:
    async def answer(request: Request) -> Response:
        return PlainTextResponse(str(id(asyncio.get_running_loop())))

    return Starlette(routes=[Route("/", answer)])


def test_it_answers_in_the_loop_of_its_caller_on_a_port_of_its_own() -> None:
    async def scenario() -> None:
        servers = [HttpServer(hello(), "127.0.0.1", 0) for _ in range(2)]
        async with httpx.AsyncClient() as client:
            for server in servers:
                await server.start()
            for server in servers:
                answer = await client.get(server.url)
                assert answer.text == str(id(asyncio.get_running_loop()))
            for server in servers:
                await server.stop()
            with pytest.raises(httpx.ConnectError):
                await client.get(servers[0].url)
        assert servers[0].port != servers[1].port

    run(scenario())


def test_a_port_is_free_again_after_a_stop() -> None:
    async def scenario() -> None:
        port = 0
        for _ in range(3):
            server = HttpServer(hello(), "127.0.0.1", port)
            port = server.port
            await server.start()
            async with httpx.AsyncClient() as client:
                assert (await client.get(server.url)).status_code == 200
            await server.stop()

    run(scenario())


def test_it_leaves_signals_and_logging_alone() -> None:
    async def scenario() -> None:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        log_handlers = list(logging.getLogger().handlers)
        server = HttpServer(hello(), "127.0.0.1", 0)
        await server.start()
        async with httpx.AsyncClient() as client:
            await client.get(server.url)
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
        assert logging.getLogger().handlers == log_handlers
        await server.stop()

    run(scenario())


def test_a_running_request_ends_before_the_server_does() -> None:
    async def scenario() -> None:
        entered, release = asyncio.Event(), asyncio.Event()

        async def slow(request: Request) -> Response:
            entered.set()
            await release.wait()
            return PlainTextResponse("done")

        server = HttpServer(Starlette(routes=[Route("/", slow)]), "127.0.0.1", 0)
        await server.start()
        async with httpx.AsyncClient(timeout=30) as client:
            request = asyncio.create_task(client.get(server.url))
            await entered.wait()
            stopping = asyncio.create_task(server.stop(timeout=30))
            await asyncio.sleep(0)
            release.set()
            assert (await request).text == "done"
            await stopping

    run(scenario())


def test_a_request_that_never_ends_is_cancelled() -> None:
    async def scenario() -> None:
        entered, cancelled = asyncio.Event(), asyncio.Event()

        async def endless(request: Request) -> Response:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            raise AssertionError

        server = HttpServer(Starlette(routes=[Route("/", endless)]), "127.0.0.1", 0)
        await server.start()
        async with httpx.AsyncClient(timeout=30) as client:
            request = asyncio.create_task(client.get(server.url))
            await entered.wait()
            await server.stop(timeout=0.1)
            assert cancelled.is_set()
            await asyncio.gather(request, return_exceptions=True)

    run(scenario())


def test_half_a_request_does_not_keep_it_from_stopping() -> None:
    async def scenario() -> None:
        server = HttpServer(hello(), "127.0.0.1", 0)
        await server.start()
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTT")
        await writer.drain()
        async with httpx.AsyncClient() as client:
            await client.get(server.url)
        await server.stop(timeout=0.1)
        writer.close()

    run(scenario())


def test_a_port_in_use_is_noticed_also_when_a_server_of_this_kind_has_it() -> None:
    async def scenario() -> None:
        first = HttpServer(hello(), "127.0.0.1", 0)
        await first.start()
        with pytest.raises(ConfigError) as caught:
            HttpServer(hello(), "127.0.0.1", first.port)
        await first.stop()
        message = str(caught.value)
        assert message.startswith(f"cannot listen on 127.0.0.1:{first.port}: the port is in use")
        assert "server.port or FRAZIL__SERVER__PORT" in message

    run(scenario())


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1", "a" * 300])
def test_a_host_that_is_not_ours_is_explained(host: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.host or FRAZIL__SERVER__HOST"):
        HttpServer(hello(), host, 0)


@pytest.mark.parametrize(("host", "url"), [("0.0.0.0", "http://127.0.0.1"), ("localhost", "http://127.0.0.1")])
def test_its_address_can_be_asked_from_this_machine(host: str, url: str) -> None:
    async def scenario() -> None:
        server = HttpServer(hello(), host, 0)
        assert server.url == f"{url}:{server.port}"
        await server.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port)).close()

    run(scenario())
