"""Makes endpoints of a port out of the routes of a query API, whose answers are made in other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from frazil.config.sections.section import MIB
from frazil.engine.interface import QueryRequest, QueryRoute
from frazil.errors import BodyTooLarge
from frazil.scan.tenants import HEADER, tenant_names
from frazil.web.admission import Admission
from frazil.web.asgi import AsgiBody
from frazil.web.bodies import read_body
from frazil.web.ports.contributions import Endpoint
from frazil.web.streaming import Client, Reply, StreamedAnswer

MAX_BODY_BYTES = 16 * MIB
"""The largest body of a query. Forms with long lists of matchers take some; no query needs more."""


MAX_IN_FLIGHT_BYTES = 4 * MAX_BODY_BYTES
"""All bodies of queries that have not been passed on yet may take this much."""


def query_admission(metrics: CollectorRegistry) -> Admission:
    gauge = Gauge("frazil_query_in_flight_bytes", "Bytes of queries that are not answered yet.", registry=metrics)
    return Admission(MAX_IN_FLIGHT_BYTES, "of queries", gauge)


class Room(Protocol):
    """Has queries answered in other processes."""

    async def ask(self, answer: str, request: QueryRequest) -> Reply:
        """Returns when status and headers are known. Raises what the query failed with until then."""


class QueryEndpoints:
    def __init__(self, room: Room, admission: Admission, *, several_tenants: bool) -> None:
        """`several_tenants` says whether one query may read the rows of several tenants."""
        self._room = room
        self._admission = admission
        self._several_tenants = several_tenants

    def of(self, port: str, routes: Iterable[QueryRoute]) -> list[Endpoint]:
        return [self._endpoint(port, route) for route in routes]

    def _endpoint(self, port: str, route: QueryRoute) -> Endpoint:
        async def answer(request: Request) -> Response:
            return await self._answer(port, route.answer, request)

        return Endpoint(route.path, answer, route.summary, route.methods, port)

    async def _answer(self, port: str, answer: str, request: Request) -> Response:
        tenants = tenant_names(request.headers.getlist(HEADER), several=self._several_tenants)
        ticket = self._admission.ticket()
        client: Client | None = None
        try:
            asked = QueryRequest(
                method=request.method,
                path=request.scope["path"],
                path_parameters={name: str(value) for name, value in request.path_params.items()},
                query=request.scope["query_string"].decode("latin-1"),
                headers=_headers(request.headers),
                body=await self._body(request, ticket.add),
                tenants=tenants,
                port=port,
            )
            client = Client(request.receive)
            reply = await client.unless_gone(self._room.ask(answer, asked))
        except BaseException:
            if client is not None:
                client.close()
            raise
        finally:
            ticket.give_back()
        return StreamedAnswer(reply, client, request.headers.get("accept-encoding", ""))

    async def _body(self, request: Request, count: Callable[[int], None]) -> bytes:
        # To ask for the end of a body that is not there would take a while over HTTP/2.
        if request.method in ("GET", "HEAD") and not {"content-length", "transfer-encoding"} & set(request.headers):
            return b""
        nbytes = 0

        def counted(part: bytes) -> None:
            nonlocal nbytes
            nbytes += len(part)
            _check(nbytes)
            count(len(part))

        incoming = AsgiBody(request.scope, request.receive)
        _check(incoming.length or 0)
        return await read_body(incoming, counted)


def _check(nbytes: int) -> None:
    if nbytes > MAX_BODY_BYTES:
        raise BodyTooLarge(f"The body is over the limit of {MAX_BODY_BYTES:,} bytes. Ask for less at a time.")


def _headers(headers: Headers) -> dict[str, str]:
    """Returns all headers. Values of a header that comes several times are joined as HTTP says."""
    return {name: ", ".join(headers.getlist(name)) for name in headers}
