"""OTLP over HTTP: answers in the request's own content type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.doors.otlp.answers import encoded, response, status
from frazil.doors.otlp.signals import Signal
from frazil.doors.telemetry.bodies import UnknownEncoding
from frazil.doors.telemetry.http import JSON, PROTOBUF, Answer, Form, content_encoding, media_type
from frazil.doors.telemetry.intake import Accepted
from frazil.doors.telemetry.refusals import Refusal


@dataclass(frozen=True)
class OtlpDialect:
    signal: Signal
    name = "otlp-http"

    def form(self, headers: Mapping[str, str]) -> Form:
        kind = media_type(headers)
        if kind not in (PROTOBUF, JSON):
            raise UnknownEncoding(f"{kind[:80]!r} is neither {PROTOBUF} nor {JSON}.")
        return Form(kind == JSON, content_encoding(headers))

    def accepted(self, accepted: Accepted, form: Form) -> Answer:
        return Answer(200, encoded(response(self.signal, accepted), form.json), _type(form))

    def refused(self, refusal: Refusal, form: Form) -> Answer:
        return Answer(refusal.http, encoded(status(refusal), form.json), _type(form), refusal.headers)


def _type(form: Form) -> str:
    return JSON if form.json else PROTOBUF
