"""Browsers that show pages of other sites are refused, and everybody else is served."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from frazil.web.hosts import AllowedHosts, BrowserGuard, host_name
from frazil.web.server import HttpServer
from tests.ops.support import run


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "[::1]",
        "10.1.2.3",
        "[fd00::7]",
        "localhost",
        "app.localhost",
        "frazil",
        "frazil-0",
        "frazil.default.svc",
        "frazil.default.svc.cluster.local",
        "db.internal",
        "frazil.example.com",
        "a.cluster.example.net",
        "listening.example.org",
        "",
    ],
)
def test_names_of_this_process(host: str) -> None:
    hosts = AllowedHosts(["Frazil.example.com", "*.cluster.example.net"], "listening.example.org")
    assert hosts.is_ours(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "example.com", "cluster.example.net", "127.0.0.1.evil.example", "localhost.evil.example"]
)
def test_names_that_may_be_anybodys(host: str) -> None:
    assert not AllowedHosts(["frazil.example.com", "*.cluster.example.net"], "127.0.0.1").is_ours(host)
    assert AllowedHosts(["*"], "127.0.0.1").is_ours(host)


@pytest.mark.parametrize(
    ("told", "host"),
    [("a.b:8080", "a.b"), ("A.B.", "a.b"), ("[::1]:8080", "[::1]"), ("[::1]", "[::1]"), ("127.0.0.1:1", "127.0.0.1")],
)
def test_what_a_header_names(told: str, host: str) -> None:
    assert host_name(told) == host


@pytest.mark.parametrize(
    ("origin", "host", "may"),
    [
        ("http://localhost:3000", "localhost", True),
        ("http://127.0.0.1:3000", "localhost", True),
        ("http://10.0.0.5:8080", "10.0.0.5", True),
        ("http://10.0.0.6", "10.0.0.5", False),
        ("https://grafana.example.com", "localhost", True),
        ("https://evil.example", "localhost", False),
        ("https://evil.example:8080", "evil.example", False),
        ("http://203.0.113.5", "127.0.0.1", False),
        ("null", "localhost", False),
        ("http://[", "localhost", False),
    ],
)
def test_pages_that_may_ask(origin: str, host: str, may: bool) -> None:
    assert AllowedHosts(["grafana.example.com"], "127.0.0.1").may_ask(origin, host) is may


def test_requests_over_http() -> None:
    async def answer(request: Request) -> Response:
        return PlainTextResponse("here")

    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])

    async def scenario() -> None:
        hosts = AllowedHosts([], "127.0.0.1")
        strict = HttpServer(BrowserGuard(app, hosts, names=True), "127.0.0.1", 0)
        lenient = HttpServer(BrowserGuard(app, hosts, names=False), "127.0.0.1", 0)
        for server in (strict, lenient):
            await server.start()

        async def asked(server: HttpServer, method: str, headers: Mapping[str, str]) -> int:
            async with httpx.AsyncClient() as client:
                answer = await client.request(method, server.url, headers=dict(headers))
                if answer.status_code in (403, 421):
                    assert "server.allowed_hosts or FRAZIL__SERVER__ALLOWED_HOSTS" in answer.json()["error"]
                return answer.status_code

        rebound = {"host": "evil.example:8080"}
        foreign = {"origin": "https://evil.example"}
        assert await asked(strict, "GET", {}) == 200
        assert await asked(strict, "GET", {"host": socket.gethostname()}) == 200
        assert await asked(strict, "GET", rebound) == 421
        assert await asked(strict, "POST", foreign) == 403
        assert await asked(lenient, "POST", rebound) == 200
        assert await asked(lenient, "POST", foreign) == 403
        assert await asked(lenient, "POST", {**rebound, "origin": "http://evil.example:8080"}) == 421
        for server in (strict, lenient):
            await server.stop()

    run(scenario())
