"""Why requests are not accepted, as codes of HTTP and of gRPC.

A client that is told of a failure sends the same again only if it may help, so the codes matter: 400 and its kin for
what can never be accepted, 429 for too much, 503 for everything else that is not stored. Never 200 for what is not
stored, and never 500: clients then drop what they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import grpc

from frazil.doors.telemetry.decompression import BodyTooLarge, UnknownEncoding
from frazil.errors import BufferFull, RateExceeded, RequestError, TooMuch
from frazil.web.error_texts import text_for_client

RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class Refusal:
    http: int
    grpc: grpc.StatusCode
    reason: str
    retry_seconds: float | None = None
    busy: bool = False
    """Whether there is too much for all, and not for a tenant."""

    @property
    def headers(self) -> dict[str, str]:
        """Of the answer over HTTP."""
        return {} if self.retry_seconds is None else {"retry-after": str(max(1, ceil(self.retry_seconds)))}


def refusal(error: BaseException) -> Refusal:
    # What a client sent may be in it, and that may be no text that can be sent back.
    reason = text_for_client(error).encode(errors="backslashreplace").decode()
    match error:
        case BodyTooLarge():
            return Refusal(413, grpc.StatusCode.INVALID_ARGUMENT, reason)
        case UnknownEncoding():
            return Refusal(415, grpc.StatusCode.INVALID_ARGUMENT, reason)
        case RequestError():
            return Refusal(400, grpc.StatusCode.INVALID_ARGUMENT, reason)
        case RateExceeded():
            return Refusal(429, grpc.StatusCode.RESOURCE_EXHAUSTED, reason, error.seconds)
        case TooMuch():
            return Refusal(429, grpc.StatusCode.RESOURCE_EXHAUSTED, reason, error.seconds, busy=True)
        case BufferFull():
            return Refusal(429, grpc.StatusCode.RESOURCE_EXHAUSTED, reason, RETRY_SECONDS, busy=True)
    return Refusal(503, grpc.StatusCode.UNAVAILABLE, reason, RETRY_SECONDS)
