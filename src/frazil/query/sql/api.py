"""Serves `POST /sql`: the body is the text of a query, and the answer has its rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from frazil.engine.exchange import Exchange
from frazil.engine.interface import QueryRequest
from frazil.engine.room import QueryRoom
from frazil.errors import (
    FrazilError,
    PartitionDamaged,
    QueriesBusy,
    QueryError,
    QueryTimeout,
    RequestError,
    ShutdownError,
)
from frazil.query.sql.limits import ANSWER, MAX_BYTES
from frazil.scan.tenants import HEADER, tenant_name
from frazil.web.answers import problem
from frazil.web.asgi import AsgiBody
from frazil.web.bodies import BodyIncomplete, BodyStalled, read_body
from frazil.web.operations import Endpoint

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
        try:
            tenant = tenant_name(request.headers.getlist(HEADER))
            text = await _body(request)
            asked = self._room.ask(ANSWER, _query(request, text, tenant))
            reply = await _while_connected(request, asyncio.create_task(asked))
        except FrazilError as error:
            return _refused(error)
        return StreamingResponse(_pieces(reply), reply.status, reply.headers)


async def _while_connected(request: Request, asked: asyncio.Task[Exchange]) -> Exchange:
    """Waits for the reply as long as the client does."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            continue

    leaving = asyncio.create_task(gone())
    try:
        await asyncio.wait({asked, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise ShutdownError("The client has gone.")
        return asked.result()
    finally:
        for task in (asked, leaving):
            task.cancel()


async def _pieces(reply: Exchange) -> AsyncIterator[bytes]:
    try:
        async for piece in reply:
            yield piece
    finally:
        await reply.aclose()


def _query(request: Request, text: bytes, tenant: str) -> QueryRequest:
    headers = {"accept": request.headers.get("accept", "")}
    return QueryRequest("POST", "/sql", {}, request.url.query, headers, text, (tenant,), _PORT)


class _TooLong(RequestError):
    """Raised when a body is larger than a query can be."""


async def _body(request: Request) -> bytes:
    size = 0

    def count(part: bytes) -> None:
        nonlocal size
        size += len(part)
        if size > MAX_BYTES:
            raise _TooLong(f"The query is longer than {MAX_BYTES:,} bytes.")

    data = await read_body(AsgiBody(request.scope, request.receive), count)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"The query is not UTF-8: byte {error.start} of the body is wrong.") from error
    return bytes(data)


def _refused(error: FrazilError) -> Response:
    match error:
        case _TooLong():
            status = 413
        case BodyStalled():
            status = 408
        case QueriesBusy():
            status = 429
        case QueryTimeout():
            status = 504
        case RequestError():
            status = 400
        case PartitionDamaged():
            status = 503
        case _:
            status = 503 if error.retryable else 500
    place = {"line": error.line, "column": error.column} if isinstance(error, QueryError) and error.line else {}
    response = problem(status, error, **place)
    if error.retryable:
        response.headers["retry-after"] = "1"
    if isinstance(error, BodyStalled | BodyIncomplete):
        response.headers["connection"] = "close"
    return response
