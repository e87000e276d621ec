"""Requests over HTTP: read, taken in, and answered in the words of their protocol.

Endpoints are applications of ASGI, without a framework: for a small request it would take longer than all the rest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

from prometheus_client import Counter
from starlette.types import ASGIApp, Receive, Scope, Send

from frazil.doors.bodies import CLOSED, BodyStalled, Gone, pass_over, read_body
from frazil.doors.telemetry import preparing
from frazil.doors.telemetry.admission import Admission, Ticket
from frazil.doors.telemetry.bodies import BodyTooLarge
from frazil.doors.telemetry.intake import Accepted, Intake
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.refusals import Refusal, refusal
from frazil.errors import FrazilError
from frazil.ops.tenants import HEADER, tenant_name

logger = logging.getLogger(__name__)

_TENANT = HEADER.encode()
PROTOBUF, JSON, TEXT = "application/x-protobuf", "application/json", "text/plain; charset=utf-8"


class Form(NamedTuple):
    """How a body is written."""

    json: bool = False
    encoding: str = ""


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    media_type: str = ""
    headers: Mapping[str, str] = MappingProxyType({})

    def start(self) -> dict[str, object]:
        """The message with which it begins, as ASGI has it."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
        if self.media_type:
            headers.append((b"content-type", self.media_type.encode("latin-1")))
        if self.status != 204:
            headers.append((b"content-length", b"%d" % len(self.body)))
        return {"type": "http.response.start", "status": self.status, "headers": headers}


class Dialect(Protocol):
    """What protocols over HTTP say differently."""

    @property
    def name(self) -> str: ...

    def form(self, headers: Mapping[str, str]) -> Form:
        """Of the body with these headers. Raises `RequestError`."""

    def accepted(self, accepted: Accepted, form: Form) -> Answer: ...

    def refused(self, refusal: Refusal, form: Form) -> Answer: ...


class Doorway(NamedTuple):
    """What all requests over HTTP go through."""

    admission: Admission
    metrics: TelemetryMetrics
    most: int
    """The largest body, in bytes."""


class Endpoint:
    """An application that takes requests: `POST` to one path."""

    def __init__(self, intake: Intake, dialect: Dialect, doorway: Doorway) -> None:
        self._intake = intake
        self._dialect = dialect
        self._doorway = doorway
        self._seconds = doorway.metrics.seconds.labels(intake.kind.topic, dialect.name)
        self._answered = cache(self._counter)
        self._all_stored = cache(self._accepted_whole)
        self._form = lru_cache(maxsize=64)(self._form_of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.monotonic()
        ticket = self._doorway.admission.ticket()
        try:
            answer, unread = await self._answer(scope, receive, ticket)
        finally:
            ticket.give_back()
        self._answered(answer.status).inc()
        self._seconds.observe(time.monotonic() - started)
        if answer.status != CLOSED:
            await send(answer.start())
            await send({"type": "http.response.body", "body": answer.body})
        if unread:
            await pass_over(receive)

    def _counter(self, status: int) -> Counter:
        return self._doorway.metrics.requests.labels(self._intake.kind.topic, self._dialect.name, str(status))

    def _accepted_whole(self, form: Form) -> Answer:
        return self._dialect.accepted(Accepted(), form)

    async def _answer(self, scope: Scope, receive: Receive, ticket: Ticket) -> tuple[Answer, bool]:
        """And whether some of the body was not read."""
        form = Form()
        body: bytes | None = None
        try:
            headers = dict(reversed(scope["headers"]))
            form = self._form(headers.get(b"content-type"), headers.get(b"content-encoding", b""))
            tenant = _tenant(headers.get(_TENANT))
            body = await self._read(headers.get(b"content-length", b""), receive, ticket)
            accepted = await self._intake.take(preparing.Request(tenant, body, form.encoding, form.json))
        except Gone:
            return Answer(CLOSED), False
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            refused = self._refused(error, form)
            if isinstance(error, BodyStalled):
                return refused._replace(headers={**refused.headers, "connection": "close"}), False
            return refused, body is None
        if accepted.rejected or accepted.reason:
            return self._dialect.accepted(accepted, form), False
        return self._all_stored(form), False

    def _form_of(self, kind: bytes | None, encoding: bytes) -> Form:
        told = {} if kind is None else {"content-type": kind.decode("latin-1")}
        return self._dialect.form({**told, "content-encoding": encoding.decode("latin-1")})

    async def _read(self, told: bytes, receive: Receive, ticket: Ticket) -> bytes:
        """`told` is how long it is said to be."""
        most = self._doorway.most
        expected = int(told) if told.isdigit() else 0
        if expected > most:
            raise BodyTooLarge(most)
        ticket.expect(expected)

        def count(part: bytes) -> None:
            if ticket.nbytes + len(part) > most:
                raise BodyTooLarge(most)
            ticket.add(len(part))

        return await read_body(receive, count)

    def _refused(self, error: Exception, form: Form) -> Answer:
        if not isinstance(error, FrazilError):
            logger.error("a request failed", exc_info=error)
        found = refusal(error)
        if found.http == 503:
            self._doorway.metrics.errors.count(error)
        return self._dialect.refused(found, form)


@lru_cache(maxsize=1024)
def _tenant(told: bytes | None) -> str:
    return tenant_name({} if told is None else {HEADER: told.decode("latin-1")})


class Port:
    """An application with an endpoint on each of these paths, and another for all else."""

    def __init__(self, endpoints: Mapping[str, Endpoint], others: ASGIApp) -> None:
        self._endpoints = endpoints
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["path"])
        if endpoint is None or scope.get("method") != "POST":
            await self._others(scope, receive, send)
        else:
            await endpoint(scope, receive, send)


def text(reason: str, status: int, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, f"{reason}\n".encode(), TEXT, headers or {})


def media_type(headers: Mapping[str, str]) -> str:
    """What the body is said to be; Protobuf where nothing is said."""
    return headers.get("content-type", PROTOBUF).partition(";")[0].strip().lower()


def content_encoding(headers: Mapping[str, str]) -> str:
    return headers.get("content-encoding", "").strip().lower()
