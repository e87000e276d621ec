"""How requests are answered: what was accepted, or why it was not, in the words of OTLP.

A client that is told of a failure sends the same again only if it may help, so the codes matter: 400 and its kin for
what can never be accepted, 429 for too much, 503 for everything else that is not stored. Never 200 for what is not
stored, and never 500: clients then drop what they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import grpc
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from frazil.doors.otlp.bodies import BodyTooLarge, UnknownEncoding
from frazil.doors.otlp.intake import Accepted
from frazil.doors.otlp.limits import TooMuch
from frazil.doors.otlp.signals import Signal
from frazil.errors import BufferFull, RequestError

RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class Refusal:
    """Why a request was not accepted, for both protocols."""

    http: int
    grpc: grpc.StatusCode
    reason: str
    retry_seconds: float | None = None

    @property
    def retry_after(self) -> str:
        return str(max(1, ceil(self.retry_seconds or 0)))

    def status(self) -> Status:
        status = Status(code=self.grpc.value[0], message=self.reason)
        if self.retry_seconds is not None:
            delay = Duration()
            delay.FromNanoseconds(round(self.retry_seconds * 10**9))
            status.details.add().Pack(RetryInfo(retry_delay=delay))
        return status


def refusal(error: BaseException) -> Refusal:
    reason = str(error)
    match error:
        case BodyTooLarge():
            return Refusal(413, grpc.StatusCode.INVALID_ARGUMENT, reason)
        case UnknownEncoding():
            return Refusal(415, grpc.StatusCode.INVALID_ARGUMENT, reason)
        case RequestError():
            return Refusal(400, grpc.StatusCode.INVALID_ARGUMENT, reason)
        case TooMuch():
            return Refusal(429, grpc.StatusCode.RESOURCE_EXHAUSTED, reason, error.seconds)
        case BufferFull():
            return Refusal(429, grpc.StatusCode.RESOURCE_EXHAUSTED, reason, RETRY_SECONDS)
    return Refusal(503, grpc.StatusCode.UNAVAILABLE, reason or type(error).__name__, RETRY_SECONDS)


def response(signal: Signal, accepted: Accepted) -> Message:
    """Nothing in it when all was accepted."""
    message = signal.response()
    if accepted.rejected:
        setattr(message.partial_success, signal.rejected_field, accepted.rejected)
        message.partial_success.error_message = accepted.reason
    return message


def encoded(message: Message, as_json: bool) -> bytes:
    if as_json:
        text: str = json_format.MessageToJson(message, indent=None)
        return text.encode()
    serialized: bytes = message.SerializeToString()
    return serialized
