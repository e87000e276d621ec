"""OTLP over HTTP: one endpoint for each signal, in Protobuf and in JSON."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from frazil.doors.otlp import intake as door
from frazil.doors.otlp.admission import Admission, Ticket
from frazil.doors.otlp.answers import encoded, refusal, response
from frazil.doors.otlp.bodies import BodyTooLarge, UnknownEncoding
from frazil.doors.otlp.intake import Intake
from frazil.doors.otlp.metrics import OtlpMetrics
from frazil.errors import FrazilError
from frazil.ops.tenants import tenant_name

logger = logging.getLogger(__name__)

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_CLOSED = 499
"""The client has gone; nobody reads the answer."""

Handler = Callable[[Request], Awaitable[Response]]


class OtlpHttp:
    def __init__(self, intakes: Iterable[Intake], admission: Admission, metrics: OtlpMetrics, most: int) -> None:
        """`most` is the largest body, in bytes."""
        self._admission = admission
        self._metrics = metrics
        self._most = most
        routes = [Route(each.signal.path, self._endpoint(each), methods=["POST"]) for each in intakes]
        self.app = Starlette(routes=[Route("/health", _alive), *routes])

    def _endpoint(self, intake: Intake) -> Handler:
        topic = intake.signal.topic
        seconds = self._metrics.seconds.labels(topic)

        async def answer(request: Request) -> Response:
            started = time.monotonic()
            with self._admission() as ticket:
                found = await self._answer(request, intake, ticket)
            self._metrics.requests.labels(topic, "http", str(found.status_code)).inc()
            seconds.observe(time.monotonic() - started)
            return found

        return answer

    async def _answer(self, request: Request, intake: Intake, ticket: Ticket) -> Response:
        as_json = False
        try:
            as_json = _is_json(request.headers)
            tenant = tenant_name(request.headers)
            encoding = request.headers.get("content-encoding", "").strip().lower()
            body = await self._read(request, ticket)
            accepted = await intake.take(door.Request(tenant, body, encoding, as_json))
        except ClientDisconnect:
            return Response(status_code=_CLOSED)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            return self._refused(error, as_json)
        return Response(encoded(response(intake.signal, accepted), as_json), media_type=JSON if as_json else PROTOBUF)

    async def _read(self, request: Request, ticket: Ticket) -> bytes:
        told = request.headers.get("content-length", "")
        expected = int(told) if told.isascii() and told.isdecimal() else 0
        if expected > self._most:
            raise BodyTooLarge(self._most)
        ticket.add(expected)
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > self._most:
                raise BodyTooLarge(self._most)
            if size > ticket.nbytes:
                ticket.add(size - ticket.nbytes)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _refused(self, error: Exception, as_json: bool) -> Response:
        found = refusal(error)
        if not isinstance(error, FrazilError):
            logger.error("a request failed", exc_info=error)
        if found.http == 503:
            self._metrics.errors.count(error)
        headers = {"retry-after": found.retry_after} if found.retry_seconds is not None else {}
        body = encoded(found.status(), as_json)
        return Response(body, found.http, headers, media_type=JSON if as_json else PROTOBUF)


def _is_json(headers: Mapping[str, str]) -> bool:
    kind = headers.get("content-type", PROTOBUF).partition(";")[0].strip().lower()
    if kind not in (PROTOBUF, JSON):
        raise UnknownEncoding(f"{kind[:80]!r} is neither {PROTOBUF} nor {JSON}.")
    return kind == JSON


async def _alive(_: Request) -> Response:
    return PlainTextResponse("ok\n")
