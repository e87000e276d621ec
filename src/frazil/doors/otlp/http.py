"""Defines OTLP over HTTP: requests in Protobuf or JSON, and answers in the same content type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.doors.otlp.answers import encoded, response, status
from frazil.doors.otlp.signals import Signal
from frazil.doors.telemetry.http import JSON, PROTOBUF, BodyFormat, HttpAnswer, content_encoding, media_type
from frazil.doors.telemetry.intake import Accepted
from frazil.errors import BodyUnsupported
from frazil.web.failures import Failure


@dataclass(frozen=True)
class OtlpDialect:
    signal: Signal
    name = "otlp-http"

    def body_format(self, headers: Mapping[str, str]) -> BodyFormat:
        kind = media_type(headers)
        if kind not in (PROTOBUF, JSON):
            raise BodyUnsupported(f"{kind[:80]!r} is neither {PROTOBUF} nor {JSON}.")
        return BodyFormat(kind == JSON, content_encoding(headers))

    def accepted(self, accepted: Accepted, body_format: BodyFormat) -> HttpAnswer:
        return HttpAnswer(200, encoded(response(self.signal, accepted), body_format.json), _type(body_format))

    def refused(self, failure: Failure, body_format: BodyFormat) -> HttpAnswer:
        return HttpAnswer(
            failure.http, encoded(status(failure), body_format.json), _type(body_format), failure.headers
        )


def _type(body_format: BodyFormat) -> str:
    return JSON if body_format.json else PROTOBUF
