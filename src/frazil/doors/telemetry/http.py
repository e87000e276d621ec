"""Requests over HTTP: read, taken in, and answered in the words of their protocol."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, Protocol

from prometheus_client import Counter
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from frazil.doors.bodies import CLOSED, BodyStalled, pass_over, patience
from frazil.doors.telemetry import preparing
from frazil.doors.telemetry.admission import Admission, Ticket
from frazil.doors.telemetry.bodies import BodyTooLarge
from frazil.doors.telemetry.intake import Accepted, Intake
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.refusals import Refusal, refusal
from frazil.errors import FrazilError
from frazil.ops.tenants import tenant_name

logger = logging.getLogger(__name__)

PROTOBUF, JSON = "application/x-protobuf", "application/json"


class Form(NamedTuple):
    """How a body is written."""

    json: bool = False
    encoding: str = ""


class Dialect(Protocol):
    """What protocols over HTTP say differently."""

    @property
    def name(self) -> str: ...

    def form(self, headers: Mapping[str, str]) -> Form:
        """Of the body with these headers. Raises `RequestError`."""

    def accepted(self, accepted: Accepted, form: Form) -> Response: ...

    def refused(self, refusal: Refusal, form: Form) -> Response: ...


class Doorway(NamedTuple):
    """What all requests over HTTP go through."""

    admission: Admission
    metrics: TelemetryMetrics
    most: int
    """The largest body, in bytes."""


class Endpoint:
    """A handler of requests: `POST` to one path."""

    def __init__(self, intake: Intake, dialect: Dialect, doorway: Doorway) -> None:
        self._intake = intake
        self._dialect = dialect
        self._doorway = doorway
        self._seconds = doorway.metrics.seconds.labels(intake.kind.topic, dialect.name)
        self._answered = cache(self._counter)

    async def answer(self, request: Request) -> Response:
        started = time.monotonic()
        with self._doorway.admission() as ticket:
            found = await self._answer(request, ticket)
        self._answered(found.status_code).inc()
        self._seconds.observe(time.monotonic() - started)
        return found

    def _counter(self, status: int) -> Counter:
        return self._doorway.metrics.requests.labels(self._intake.kind.topic, self._dialect.name, str(status))

    async def _answer(self, request: Request, ticket: Ticket) -> Response:
        form = Form()
        body: bytes | None = None
        try:
            form = self._dialect.form(request.headers)
            tenant = tenant_name(request.headers)
            body = await self._read(request, ticket)
            accepted = await self._intake.take(preparing.Request(tenant, body, form.encoding, form.json))
        except ClientDisconnect:
            return Response(status_code=CLOSED)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            refused = self._refused(error, form)
            if isinstance(error, BodyStalled):
                refused.headers["connection"] = "close"
            elif body is None:
                refused.background = BackgroundTask(pass_over, request)
            return refused
        return self._dialect.accepted(accepted, form)

    async def _read(self, request: Request, ticket: Ticket) -> bytes:
        most = self._doorway.most
        told = request.headers.get("content-length", "")
        expected = int(told) if told.isascii() and told.isdecimal() else 0
        if expected > most:
            raise BodyTooLarge(most)
        ticket.expect(expected)
        parts: list[bytes] = []
        async with patience() as patient:
            async for part in request.stream():
                if ticket.nbytes + len(part) > most:
                    raise BodyTooLarge(most)
                ticket.add(len(part))
                parts.append(part)
                patient()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _refused(self, error: Exception, form: Form) -> Response:
        if not isinstance(error, FrazilError):
            logger.error("a request failed", exc_info=error)
        found = refusal(error)
        if found.http == 503:
            self._doorway.metrics.errors.count(error)
        return self._dialect.refused(found, form)


def media_type(headers: Mapping[str, str]) -> str:
    """What the body is said to be; Protobuf where nothing is said."""
    return headers.get("content-type", PROTOBUF).partition(";")[0].strip().lower()


def content_encoding(headers: Mapping[str, str]) -> str:
    return headers.get("content-encoding", "").strip().lower()
