"""Serves `POST /sql`: the body is the text of a query, and the answer has its rows."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.requests import Request
from starlette.responses import Response

from frazil.errors import BodyTooLarge, FrazilError, RequestError
from frazil.query.sql.parse import MAX_BYTES
from frazil.query.sql.pool import WorkerPool
from frazil.query.sql.protocol import Question
from frazil.scan.tenants import HEADER, tenant_name
from frazil.web.answers import ARROW_STREAM, refused, wants_arrow
from frazil.web.asgi import AsgiBody
from frazil.web.bodies import read_body
from frazil.web.ports.contributions import Endpoint

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class SqlMetrics:
    def __init__(self, registry: CollectorRegistry, pool: WorkerPool) -> None:
        self.queries = Counter(
            "frazil_sql_queries", "SQL queries by status of the answer.", ["status"], registry=registry
        )
        self.seconds = Histogram("frazil_sql_seconds", "Time that answers took.", buckets=_BUCKETS, registry=registry)
        running = Gauge("frazil_sql_running", "SQL queries that run now.", registry=registry)
        running.set_function(lambda: pool.running)
        waiting = Gauge("frazil_sql_waiting", "SQL queries that wait for their turn.", registry=registry)
        waiting.set_function(lambda: pool.waiting)


class SqlApi:
    def __init__(self, pool: WorkerPool, metrics: CollectorRegistry) -> None:
        self._pool = pool
        self._metrics = SqlMetrics(metrics, pool)

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
        arrow = wants_arrow(request)
        try:
            tenant = tenant_name(request.headers.getlist(HEADER))
            text = await _body(request)
            body = await self._pool.ask(Question(text, tenant, arrow))
        except FrazilError as error:
            return refused(error)
        return Response(body, media_type=ARROW_STREAM if arrow else "application/json")


async def _body(request: Request) -> str:
    size = 0

    def count(part: bytes) -> None:
        nonlocal size
        size += len(part)
        if size > MAX_BYTES:
            raise BodyTooLarge(f"The query is longer than {MAX_BYTES:,} bytes.")

    data = await read_body(AsgiBody(request.scope, request.receive), count)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"The query is not UTF-8: byte {error.start} of the body is wrong.") from error
