"""Handles telemetry requests over HTTP: reads them, takes them in, and answers as their protocol wants.

There is no framework here: for a small request it would take longer than all the rest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

from prometheus_client import Counter

from frazil.doors.telemetry.conversion import TelemetryRequest
from frazil.doors.telemetry.decompression import too_large
from frazil.doors.telemetry.intake import Accepted, Intake
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.refusals import refusal
from frazil.errors import FrazilError
from frazil.scan.tenants import HEADER, tenant_name
from frazil.web.admission import Admission, Ticket
from frazil.web.bodies import BodyIncomplete, BodyStalled, Incoming, pass_over, read_body
from frazil.web.failures import Failure

logger = logging.getLogger(__name__)

PROTOBUF, JSON, TEXT = "application/x-protobuf", "application/json", "text/plain; charset=utf-8"


class BodyFormat(NamedTuple):
    """The format of a body: JSON or Protobuf, and the compression."""

    json: bool = False
    encoding: str = ""


class HttpAnswer(NamedTuple):
    status: int
    body: bytes = b""
    media_type: str = ""
    headers: Mapping[str, str] = MappingProxyType({})

    def fields(self) -> list[tuple[str, str]]:
        """Returns all headers."""
        fields = [*self.headers.items()]
        if self.media_type:
            fields.append(("content-type", self.media_type))
        return fields


class Exchange(Incoming, Protocol):
    """A request and the way to answer it, as a server provides them."""

    @property
    def length(self) -> int | None:
        """The announced length of the body."""

    def header(self, name: str) -> str | None:
        """Returns the first header of this name, which is in lower case."""

    def all(self, name: str) -> tuple[str, ...]:
        """Returns the values of all headers of this name."""

    async def answer(self, answer: HttpAnswer) -> None: ...


class Dialect(Protocol):
    """What differs between protocols over HTTP."""

    @property
    def name(self) -> str: ...

    def body_format(self, headers: Mapping[str, str]) -> BodyFormat:
        """Returns the format of the body with these headers. Raises `RequestError`."""

    def accepted(self, accepted: Accepted, body_format: BodyFormat) -> HttpAnswer: ...

    def refused(self, failure: Failure, body_format: BodyFormat) -> HttpAnswer: ...


class EndpointContext(NamedTuple):
    """What all endpoints share."""

    admission: Admission
    metrics: TelemetryMetrics
    most: int
    """The largest body in bytes."""


class TelemetryEndpoint:
    """Handles `POST` requests to one path."""

    def __init__(self, intake: Intake, dialect: Dialect, context: EndpointContext) -> None:
        self._intake = intake
        self._dialect = dialect
        self._context = context
        self._seconds = context.metrics.seconds.labels(intake.kind.topic, dialect.name)
        self._answered = cache(self._counter)
        self._all_stored = cache(self._accepted_whole)
        self._body_format = lru_cache(maxsize=64)(self._body_format_of)

    async def __call__(self, exchange: Exchange) -> None:
        started = time.monotonic()
        ticket = self._context.admission.ticket()
        try:
            answer, unread = await self._answer(exchange, ticket)
        finally:
            ticket.give_back()
        self._answered(answer.status).inc()
        self._seconds.observe(time.monotonic() - started)
        await exchange.answer(answer)
        if unread:
            await pass_over(exchange)

    def _counter(self, status: int) -> Counter:
        return self._context.metrics.requests.labels(self._intake.kind.topic, self._dialect.name, str(status))

    def _accepted_whole(self, body_format: BodyFormat) -> HttpAnswer:
        return self._dialect.accepted(Accepted(), body_format)

    async def _answer(self, exchange: Exchange, ticket: Ticket) -> tuple[HttpAnswer, bool]:
        """Returns the answer, and whether some of the body was not read."""
        body_format = BodyFormat()
        body: bytes | None = None
        try:
            body_format = self._body_format(exchange.header("content-type"), exchange.header("content-encoding"))
            tenant = _tenant(exchange.all(HEADER))
            body = await self._read(exchange, ticket)
            accepted = await self._intake.take(TelemetryRequest(tenant, body, body_format.encoding, body_format.json))
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            refused = self._refused(error, body_format)
            if isinstance(error, BodyStalled | BodyIncomplete):
                return refused._replace(headers={**refused.headers, "connection": "close"}), False
            return refused, body is None
        if accepted.rejected or accepted.reason or accepted.tally:
            return self._dialect.accepted(accepted, body_format), False
        return self._all_stored(body_format), False

    def _body_format_of(self, kind: str | None, encoding: str | None) -> BodyFormat:
        headers = {"content-type": kind, "content-encoding": encoding}
        return self._dialect.body_format({name: value for name, value in headers.items() if value is not None})

    async def _read(self, exchange: Exchange, ticket: Ticket) -> bytes:
        most = self._context.most
        expected = exchange.length or 0
        if expected > most:
            raise too_large(most)
        ticket.expect(expected)

        def count(part: bytes) -> None:
            if ticket.nbytes + len(part) > most:
                raise too_large(most)
            ticket.add(len(part))

        return await read_body(exchange, count)

    def _refused(self, error: Exception, body_format: BodyFormat) -> HttpAnswer:
        if not isinstance(error, FrazilError):
            logger.error("a request failed", exc_info=error)
        found = refusal(error)
        if found.http == 503:
            self._context.metrics.errors.count(error)
        return self._dialect.refused(found, body_format)


@lru_cache(maxsize=1024)
def _tenant(names: tuple[str, ...]) -> str:
    return tenant_name(names)


def text(reason: str, status: int, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    return HttpAnswer(status, f"{reason}\n".encode(), TEXT, headers or {})


def media_type(headers: Mapping[str, str]) -> str:
    """Returns the media type of the body; Protobuf if there is no header."""
    return headers.get("content-type", PROTOBUF).partition(";")[0].strip().lower()


def content_encoding(headers: Mapping[str, str]) -> str:
    return headers.get("content-encoding", "").strip().lower()
