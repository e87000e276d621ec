"""Serves `POST /sql`: the body is the text of a query, and the answer has its rows."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.requests import Request
from starlette.responses import Response

from frazil.engine.interface import QueryRequest
from frazil.engine.room import QueryRoom
from frazil.errors import BodyTooLarge, FrazilError, RequestError
from frazil.query.sql.limits import ANSWER, MAX_BYTES
from frazil.scan.tenants import HEADER, tenant_name
from frazil.web.answers import refused
from frazil.web.asgi import AsgiBody
from frazil.web.bodies import read_body
from frazil.web.ports.contributions import Endpoint
from frazil.web.streaming import Client, StreamedAnswer

_PORT = "operations"
_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class SqlMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.queries = Counter(
            "frazil_sql_queries", "SQL queries by status of the answer.", ["status"], registry=registry
        )
        self.seconds = Histogram("frazil_sql_seconds", "Time that answers took.", buckets=_BUCKETS, registry=registry)


class SqlApi:
    def __init__(self, room: QueryRoom, metrics: CollectorRegistry) -> None:
        self._room = room
        self._metrics = SqlMetrics(metrics)

    @property
    def endpoints(self) -> list[Endpoint]:
        return [Endpoint("/sql", self.ask, "rows of topics, by SQL in the body", ("POST",))]

    async def ask(self, request: Request) -> Response:
        started = time.monotonic()
        response = await self._answer(request)
        self._metrics.queries.labels(str(response.status_code)).inc()
        self._metrics.seconds.observe(time.monotonic() - started)
        return response

    async def _answer(self, request: Request) -> Response:
        client: Client | None = None
        try:
            tenant = tenant_name(request.headers.getlist(HEADER))
            text = await _body(request)
            client = Client(request.receive)
            reply = await client.unless_gone(self._room.ask(ANSWER, _query(request, text, tenant)))
        except BaseException as error:
            if client is not None:
                client.close()
            if isinstance(error, FrazilError):
                return refused(error)
            raise
        return StreamedAnswer(reply, client, request.headers.get("accept-encoding", ""))


def _query(request: Request, text: bytes, tenant: str) -> QueryRequest:
    headers = {"accept": request.headers.get("accept", "")}
    return QueryRequest("POST", "/sql", {}, request.url.query, headers, text, (tenant,), _PORT)


async def _body(request: Request) -> bytes:
    size = 0

    def count(part: bytes) -> None:
        nonlocal size
        size += len(part)
        if size > MAX_BYTES:
            raise BodyTooLarge(f"The query is longer than {MAX_BYTES:,} bytes.")

    data = await read_body(AsgiBody(request.scope, request.receive), count)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"The query is not UTF-8: byte {error.start} of the body is wrong.") from error
    return bytes(data)
