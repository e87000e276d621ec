"""Remote write 1.0: one kind of requests, and what is said to those who send them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message as Headers
from functools import partial

from frazil.doors.telemetry.bodies import UnknownEncoding
from frazil.doors.telemetry.http import PROTOBUF, Answer, Form, content_encoding, media_type, text
from frazil.doors.telemetry.intake import Accepted
from frazil.doors.telemetry.kinds import RequestKind
from frazil.doors.telemetry.refusals import Refusal
from frazil.errors import RequestError
from frazil.telemetry import metrics, remote_write
from frazil.telemetry.remote_write_families import Families
from frazil.telemetry.remote_write_messages import WriteRequest

PATH = "/api/v1/write"


def requests() -> RequestKind:
    """They remember what is told of families of metrics, so there is one of them for a door."""
    to_rows = partial(remote_write.to_rows, families=Families())
    return RequestKind(metrics.TOPIC, metrics.SCHEMA, WriteRequest, _no_json, to_rows)


@dataclass(frozen=True)
class RemoteWriteDialect:
    name = "remote-write"

    def form(self, headers: Mapping[str, str]) -> Form:
        kind, message = media_type(headers), _message(headers)
        if kind != PROTOBUF:
            raise UnknownEncoding(f"{kind[:80]!r} is not {PROTOBUF}.")
        if message not in ("", WriteRequest.DESCRIPTOR.full_name):
            # Senders of 2.0 are to go on with 1.0 when they are told so.
            raise UnknownEncoding(
                f"{message[:80]!r} is not {WriteRequest.DESCRIPTOR.full_name}, which is taken here."
            )
        # Nothing else was there at first, and some do not say it.
        return Form(encoding=content_encoding(headers) or "snappy")

    def accepted(self, accepted: Accepted, form: Form) -> Answer:
        if accepted.rejected:
            # The others are stored. Senders do not try again, and log what they are told.
            return text(f"{accepted.rejected} records can never be stored: {accepted.reason}", 400)
        return Answer(204)

    def refused(self, refusal: Refusal, form: Form) -> Answer:
        # Prometheus drops what was answered 429, unless it is told otherwise.
        code = 503 if refusal.busy else refusal.http
        return text(refusal.reason, code, refusal.headers)


def _message(headers: Mapping[str, str]) -> str:
    """Which message the body is said to be."""
    parsed = Headers()
    parsed["content-type"] = headers.get("content-type", PROTOBUF).replace("\r", "").replace("\n", "")
    found = parsed.get_param("proto", "")
    return found if isinstance(found, str) else ""


def _no_json(_: bytes) -> bytes:
    raise RequestError("Remote write has no JSON.")
