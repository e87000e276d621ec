"""Tests that each request finds its endpoint, and what those get that find none."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from frazil.errors import FrazilError, TopicNotFound
from frazil.web.ports.contributions import BareEndpoint, Contribution, Endpoint, check_contributions
from frazil.web.ports.port_app import PortApp
from frazil.web.ports.request_metrics import RequestMetrics
from tests.ops.support import run


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("bare")(scope, receive, send)


async def echo(request: Request) -> Response:
    return PlainTextResponse(f"{request.method} {request.path_params}")


async def missing(request: Request) -> Response:
    raise TopicNotFound("There is no topic 'x'.")


async def broken(request: Request) -> Response:
    raise RuntimeError("/secret/path")


def contributions(port: str) -> Sequence[Contribution]:
    return [
        Endpoint("/items/{name}", echo, "an item", ("GET", "PUT"), port),
        Endpoint("/items/{name}/{rest:path}", echo, "parts of it", ("GET",), port),
        Endpoint("/items/all", missing, "all", ("GET",), port),
        Endpoint("/broken", broken, "never works", ("GET", "POST"), port),
        BareEndpoint("/push", bare, "takes it", port=port),
        Endpoint("/push", echo, "shows it", ("GET",), port),
    ]


def ask(port: str, *requests: tuple[str, str]) -> tuple[list[httpx.Response], CollectorRegistry]:
    registry = CollectorRegistry()
    app = PortApp(port, contributions(port), RequestMetrics(registry))

    async def work() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://frazil") as client:
            return [await client.request(*request) for request in requests]

    return run(work()), registry


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/items/a", 200, "GET {'name': 'a'}"),
        ("PUT", "/items/a%20b", 200, "PUT {'name': 'a b'}"),
        ("GET", "/items/a/b/c", 200, "GET {'name': 'a', 'rest': 'b/c'}"),
        ("GET", "/items/all", 404, "There is no topic 'x'."),
        ("PUT", "/items/all", 200, "PUT {'name': 'all'}"),
        ("POST", "/push", 200, "bare"),
        ("GET", "/push", 200, "GET {}"),
        ("POST", "/items/a", 405, ""),
        ("HEAD", "/items/a", 405, ""),
        ("OPTIONS", "/items/a", 405, ""),
        ("GET", "/nothing", 404, "404 page not found\n"),
        ("POST", "/push/", 307, ""),
    ],
)
def test_where_requests_go(method: str, path: str, status: int, text: str) -> None:
    (found,), _ = ask("loki", (method, path))
    assert (found.status_code, found.text) == (status, text)


def test_other_methods_in_each_dialect() -> None:
    requests = [("POST", "/items/a"), ("HEAD", "/items/a"), ("OPTIONS", "/items/a")]
    prometheus, _ = ask("prometheus", *requests)
    assert [each.status_code for each in prometheus] == [405, 405, 204]
    assert {each.headers["allow"] for each in prometheus} == {"GET, OPTIONS, PUT"}
    operations, _ = ask("operations", *requests)
    assert [each.status_code for each in operations] == [405, 200, 405]
    assert operations[0].json()["error"] == "This path is served for GET, HEAD, PUT, not for POST."


@pytest.mark.parametrize("port", ["operations", "otlp", "loki", "prometheus", "tempo"])
def test_an_unexpected_error_says_nothing_of_the_server(port: str, caplog: pytest.LogCaptureFixture) -> None:
    (found,), _ = ask(port, ("GET", "/broken"))
    assert found.status_code == 500
    assert "secret" not in found.text
    assert "The server failed" in found.text
    assert "/secret/path" in caplog.text


def test_requests_are_counted_by_route() -> None:
    _, registry = ask(
        "loki", ("GET", "/items/a"), ("GET", "/items/b"), ("GET", "/x"), ("BREW", "/y"), ("POST", "/push")
    )
    counted = {
        (sample.labels["route"], sample.labels["method"], sample.labels["status"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "frazil_http_requests_total"
    }
    assert counted == {
        ("/items/{name}", "GET", "200"): 2,
        ("none", "GET", "404"): 1,
        ("none", "other", "404"): 1,
    }


def test_two_contributions_for_one_place_are_an_error() -> None:
    both: list[Contribution] = [
        Endpoint("/a", echo, "", ("GET", "POST"), "loki"),
        BareEndpoint("/a", bare, "", port="loki"),
    ]
    with pytest.raises(FrazilError, match="port loki: POST /a is contributed twice"):
        PortApp("loki", both, RequestMetrics(CollectorRegistry()))
    with pytest.raises(FrazilError, match="has names in it"):
        check_contributions([BareEndpoint("/a/{b}", bare, "", port="loki")])
    check_contributions([*contributions("loki"), *contributions("tempo")])
