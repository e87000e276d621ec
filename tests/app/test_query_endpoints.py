"""Tests that queries over HTTP reach the room that answers them, and that answers come back while they are made."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress

import httpx
import pytest
import zstandard
from prometheus_client import CollectorRegistry

from frazil.app.parts.ports import PortsPart
from frazil.app.query_endpoints import MAX_BODY_BYTES, QueryEndpoints, query_admission
from frazil.config.model import Config
from frazil.engine.interface import QueryRequest, QueryRoute
from frazil.errors import QueriesBusy, QueryError, QueryTimeout, QueryTooLarge
from frazil.ops.health import HealthRegistry
from frazil.web.streaming import Reply
from tests.ops.support import run

ROUTES = [
    QueryRoute("/api/v1/query", "tests.api:query", ("GET", "POST")),
    QueryRoute("/api/v1/label/{name}/values", "tests.api:values"),
]
PORTS = ("loki", "prometheus", "tempo")


class Answered:
    """Is a reply with these pieces. An error among them is raised."""

    def __init__(self, *pieces: bytes | Exception, status: int = 200, **headers: str) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json", **headers}
        self.closed = asyncio.Event()
        self.given = 0
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            self.given += 1
            yield piece

    async def aclose(self) -> None:
        self.closed.set()


class Asked:
    """Is a room that remembers what it was asked, and answers what the test wants."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, QueryRequest]] = []
        self.reply: Callable[[], Awaitable[Reply]] = self._small

    async def _small(self) -> Reply:
        return Answered(b"{}")

    async def ask(self, answer: str, request: QueryRequest) -> Reply:
        self.requests.append((answer, request))
        return await self.reply()

    def answers(self, reply: Answered | Exception) -> None:
        async def answer() -> Reply:
            if isinstance(reply, Exception):
                raise reply
            return reply

        self.reply = answer


class Served:
    def __init__(self, room: Asked, ports: PortsPart, metrics: CollectorRegistry, client: httpx.AsyncClient) -> None:
        self.room = room
        self._ports = ports
        self.metrics = metrics
        self.client = client

    def url(self, port: str, path: str = "/api/v1/query") -> str:
        return self._ports.url(port) + path

    def counted(self, port: str, status: int, route: str = "/api/v1/query", method: str = "GET") -> float:
        labels = {"port": port, "route": route, "method": method, "status": str(status)}
        return self.metrics.get_sample_value("frazil_http_requests_total", labels) or 0


def serving(use: Callable[[Served], Awaitable[None]], *, several: bool = False) -> None:
    async def work() -> None:
        metrics, health, room = CollectorRegistry(), HealthRegistry(), Asked()
        config = Config.model_validate({name: {"port": 0} for name in PORTS})
        endpoints = QueryEndpoints(room, query_admission(metrics), several_tenants=several)
        ports = PortsPart(config, health, metrics, lambda: [e for name in PORTS for e in endpoints.of(name, ROUTES)])
        await ports.start()
        health.mark_ready()
        try:
            async with httpx.AsyncClient(timeout=30) as client:
                await use(Served(room, ports, metrics, client))
        finally:
            await ports.stop()

    run(work())


def test_a_query_reaches_the_room_whole() -> None:
    async def use(served: Served) -> None:
        found = await served.client.post(
            served.url("prometheus") + "?time=1&x=%7B", content=b"query=up", headers={"X-Scope-OrgID": "shop"}
        )
        assert (found.status_code, found.text, found.headers["content-length"]) == (200, "{}", "2")
        await served.client.get(served.url("loki", "/api/v1/label/caf%C3%A9/values"))
        (answer, asked), *others = served.room.requests
        assert (answer, asked.method, asked.path, asked.port) == (
            "tests.api:query",
            "POST",
            "/api/v1/query",
            "prometheus",
        )
        assert (asked.query, asked.body, asked.tenants) == ("time=1&x=%7B", b"query=up", ("shop",))
        assert asked.headers["x-scope-orgid"] == "shop"
        assert [(each.path_parameters, each.tenants) for _, each in others] == [({"name": "café"}, ("default",))]
        assert served.counted("prometheus", 200, method="POST") == 1
        assert served.counted("loki", 200, "/api/v1/label/{name}/values") == 1

    serving(use)


@pytest.mark.parametrize(
    ("error", "loki", "prometheus"),
    [
        (QueryError("bad", 1, 2), 400, (400, "bad_data")),
        (QueryTooLarge("large"), 400, (422, "execution")),
        (QueryTimeout("late"), 504, (503, "timeout")),
        (QueriesBusy("busy"), 429, (429, "unavailable")),
        (RuntimeError("secret"), 500, (500, "internal")),
    ],
)
def test_errors_are_shown_as_each_dialect_does(error: Exception, loki: int, prometheus: tuple[int, str]) -> None:
    async def use(served: Served) -> None:
        for failing in (error, Answered(error)):
            served.room.answers(failing)
            for port in ("loki", "tempo"):
                found = await served.client.get(served.url(port))
                assert (found.status_code, found.headers["content-type"]) == (loki, "text/plain; charset=utf-8")
                assert "secret" not in found.text
            found = await served.client.get(served.url("prometheus"))
            assert (found.status_code, found.json()["errorType"]) == prometheus
            assert found.json()["status"] == "error"

    serving(use)


def test_tenants() -> None:
    async def one(served: Served) -> None:
        for names in ("a|b", "a b"):
            found = await served.client.get(served.url("loki"), headers={"X-Scope-OrgID": names})
            assert (found.status_code, "X-Scope-OrgID" in found.text) == (400, True)
        assert not served.room.requests

    async def several(served: Served) -> None:
        await served.client.get(served.url("loki"), headers={"X-Scope-OrgID": "a|b|a"})
        ((_, asked),) = served.room.requests
        assert asked.tenants == ("a", "b")
        many = "|".join(f"t{number}" for number in range(101))
        for names in ("a|", "a||b", many):
            found = await served.client.get(served.url("loki"), headers={"X-Scope-OrgID": names})
            assert found.status_code == 400

    serving(one)
    serving(several, several=True)


def _unzstd(raw: bytes) -> bytes:
    return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(raw))


PLAIN: dict[str | None, Callable[[bytes], bytes]] = {None: bytes, "gzip": gzip.decompress, "zstd": _unzstd}


def test_answers_are_compressed_as_the_client_likes() -> None:
    pieces = [bytes([number]) * 40_000 for number in range(20)]

    async def use(served: Served) -> None:
        for accepted, encoding in (
            ("gzip", "gzip"),
            ("gzip, zstd", "zstd"),
            ("zstd;q=0.1, gzip;q=0.9", "gzip"),
            ("*", "zstd"),
            ("br", None),
            ("gzip;q=0", None),
            ("identity", None),
        ):
            served.room.answers(Answered(*pieces))
            headers = {"accept-encoding": accepted}
            async with served.client.stream("GET", served.url("loki"), headers=headers) as found:
                raw = b"".join([piece async for piece in found.aiter_raw()])
            assert found.headers.get("content-encoding") == encoding, accepted
            assert found.headers["vary"] == "accept-encoding"
            assert PLAIN[encoding](raw) == b"".join(pieces)
        served.room.answers(Answered(b"x" * 1000))
        small = await served.client.get(served.url("loki"), headers={"accept-encoding": "gzip"})
        assert ("content-encoding" in small.headers, small.headers["content-length"]) == (False, "1000")

    serving(use)


def test_an_answer_that_fails_half_way_is_broken_off() -> None:
    async def use(served: Served) -> None:
        reply = Answered(b"x" * 100_000, b"y" * 100_000, b"z" * 100_000, QueryTimeout("late"))
        served.room.answers(reply)
        with pytest.raises(httpx.RemoteProtocolError):
            await served.client.get(served.url("loki"))
        async with asyncio.timeout(10):
            await reply.closed.wait()

    serving(use)


def test_a_client_that_goes_stops_its_query() -> None:
    async def use(served: Served) -> None:
        stopped = asyncio.Event()

        async def never() -> Reply:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            raise AssertionError

        served.room.reply = never
        with suppress(httpx.TimeoutException):
            await served.client.get(served.url("loki"), timeout=0.3)
        async with asyncio.timeout(10):
            await stopped.wait()
        while not served.counted("loki", 499):
            await asyncio.sleep(0.01)

    serving(use)


def test_a_slow_client_holds_its_query_back() -> None:
    async def use(served: Served) -> None:
        reply = Answered(*[b"x" * 262_144] * 4000)
        served.room.answers(reply)
        async with served.client.stream("GET", served.url("loki"), headers={"accept-encoding": ""}) as found:
            coming = found.aiter_raw()
            await anext(coming)
            given = -1
            while given != reply.given:
                given = reply.given
                await asyncio.sleep(0.3)
            assert given < 400
        async with asyncio.timeout(10):
            await reply.closed.wait()

    serving(use)


def test_bodies_are_bounded() -> None:
    async def use(served: Served) -> None:
        large = b"x" * (MAX_BODY_BYTES + 1)

        async def parts() -> AsyncIterator[bytes]:
            for start in range(0, len(large), 1 << 20):
                yield large[start : start + (1 << 20)]

        for body in (large, parts()):
            found = await served.client.post(served.url("loki"), content=body)
            assert (found.status_code, "over the limit" in found.text) == (413, True)
        assert not served.room.requests
        assert served.metrics.get_sample_value("frazil_query_in_flight_bytes") == 0

    serving(use)
