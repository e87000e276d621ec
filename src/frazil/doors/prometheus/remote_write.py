"""Defines remote write 1.0 and 2.0 over HTTP: two kinds of requests at one path, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message as Headers
from functools import lru_cache, partial

from frazil.doors.prometheus.written_counts import WrittenCounts, written_counts
from frazil.doors.telemetry.http import (
    PROTOBUF,
    BodyFormat,
    Exchange,
    HttpAnswer,
    TelemetryEndpoint,
    content_encoding,
    media_type,
    text,
)
from frazil.doors.telemetry.intake import Accepted
from frazil.doors.telemetry.request_kind import RequestKind
from frazil.errors import BodyUnsupported, RequestError
from frazil.formats.otlp import metrics
from frazil.formats.remote_write import v1 as remote_write
from frazil.formats.remote_write import v2 as remote_write_v2
from frazil.formats.remote_write.families import Families
from frazil.formats.remote_write.messages import RequestV2, WriteRequest
from frazil.web.failures import BUSY, Failure

PATH = "/api/v1/write"
_FIRST, _SECOND = WriteRequest.DESCRIPTOR.full_name, RequestV2.DESCRIPTOR.full_name


def requests() -> RequestKind:
    """Returns the kind of 1.0 requests. It remembers metric families, so a door has one of them."""
    to_rows = partial(remote_write.to_rows, families=Families())
    return RequestKind(metrics.TOPIC, metrics.SCHEMA, WriteRequest, _no_json, to_rows)


class RemoteWrite:
    """Handles `POST` requests of both versions at one path."""

    def __init__(self, first: TelemetryEndpoint, second: TelemetryEndpoint) -> None:
        self._first = first
        self._second = second

    async def __call__(self, exchange: Exchange) -> None:
        is_second = message_of(exchange.header("content-type") or "") == _SECOND
        await (self._second if is_second else self._first)(exchange)


@dataclass(frozen=True)
class RemoteWriteDialect:
    name = "remote-write"

    def body_format(self, headers: Mapping[str, str]) -> BodyFormat:
        kind, message = media_type(headers), message_of(headers.get("content-type", ""))
        if kind != PROTOBUF:
            raise BodyUnsupported(f"{kind[:80]!r} is not {PROTOBUF}.")
        if message not in ("", _FIRST, _SECOND):
            raise BodyUnsupported(f"{message[:80]!r} is neither {_FIRST} nor {_SECOND}, which are taken here.")
        # Snappy was the only compression at first, and some senders do not name it.
        return BodyFormat(encoding=content_encoding(headers) or "snappy")

    def accepted(self, accepted: Accepted, body_format: BodyFormat) -> HttpAnswer:
        if accepted.rejected:
            # The other records are stored. Senders do not try again, and log this text.
            return text(f"{accepted.rejected} records can never be stored: {accepted.reason}", 400)
        return HttpAnswer(204)

    def refused(self, failure: Failure, body_format: BodyFormat) -> HttpAnswer:
        # Prometheus drops requests that were answered 429, unless it is configured otherwise.
        code = 503 if failure.kind is BUSY else failure.http
        return text(failure.reason, code, failure.headers)


class RemoteWriteV2Dialect(RemoteWriteDialect):
    """Adds headers to each answer that say how much of the request is stored."""

    name = "remote-write-2"

    def accepted(self, accepted: Accepted, body_format: BodyFormat) -> HttpAnswer:
        written = accepted.tally if isinstance(accepted.tally, WrittenCounts) else WrittenCounts()
        return _with(super().accepted(accepted, body_format), written)

    def refused(self, failure: Failure, body_format: BodyFormat) -> HttpAnswer:
        return _with(super().refused(failure, body_format), WrittenCounts())


def _with(answer: HttpAnswer, written: WrittenCounts) -> HttpAnswer:
    return answer._replace(headers={**answer.headers, **written.headers()})


@lru_cache(maxsize=64)
def message_of(content_type: str) -> str:
    """Returns the message type that the content type names."""
    parsed = Headers()
    parsed["content-type"] = content_type.replace("\r", "").replace("\n", "") or PROTOBUF
    found = parsed.get_param("proto", "")
    return found if isinstance(found, str) else ""


def _no_json(_: bytes) -> bytes:
    raise RequestError("Remote write has no JSON.")


REQUESTS_V2 = RequestKind(
    metrics.TOPIC, metrics.SCHEMA, RequestV2, _no_json, remote_write_v2.to_rows, tally=written_counts
)
