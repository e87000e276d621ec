"""Maps errors to HTTP and gRPC status codes.

Clients retry only if the code says that it may help: 400 and the like for what can never be accepted, 429 for too
much, 503 for everything else that is not stored. What is not stored is never answered with 200, and never with 500,
because clients then drop their data.
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
    """Whether the server as a whole is overloaded, and not only one tenant."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the HTTP answer."""
        return {} if self.retry_seconds is None else {"retry-after": str(max(1, ceil(self.retry_seconds)))}


def refusal(error: BaseException) -> Refusal:
    # The reason may quote the client, and that may not be text that can be sent back.
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
