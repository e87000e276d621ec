"""Defines Loki's push over HTTP, which is answered with 204, or with the reason as plain text."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.doors.telemetry.http import JSON, PROTOBUF, BodyFormat, HttpAnswer, content_encoding, media_type, text
from frazil.doors.telemetry.intake import Accepted
from frazil.errors import BodyUnsupported
from frazil.web.failures import Failure

SNAPPY = "snappy"
_PROTOBUFS = (PROTOBUF, "application/protobuf", "application/octet-stream", "")


class LokiDialect:
    name = "loki"

    def body_format(self, headers: Mapping[str, str]) -> BodyFormat:
        kind, encoding = media_type(headers), content_encoding(headers)
        if kind == JSON:
            return BodyFormat(json=True, encoding=encoding)
        if kind not in _PROTOBUFS:
            raise BodyUnsupported(f"{kind[:80]!r} is neither {PROTOBUF} nor {JSON}.")
        # The body is always a Snappy block, though few clients say so.
        if encoding not in ("", SNAPPY):
            raise BodyUnsupported(f"Protobuf is compressed with {SNAPPY} here, not with {encoding[:40]!r}.")
        return BodyFormat(encoding=SNAPPY)

    def accepted(self, accepted: Accepted, body_format: BodyFormat) -> HttpAnswer:
        """Answers 400 if entries are left out, because they would be left out again, so the client must not retry.
        The rest is stored."""
        if not accepted.reason:
            return HttpAnswer(204)
        return text(f"{accepted.rejected:,} of the entries are not stored: {accepted.reason}", 400)

    def refused(self, failure: Failure, body_format: BodyFormat) -> HttpAnswer:
        return text(failure.reason, failure.http, failure.headers)
