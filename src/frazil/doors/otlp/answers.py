"""Builds the OTLP messages with which requests are answered."""

from __future__ import annotations

from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from frazil.doors.otlp.signals import Signal
from frazil.doors.telemetry.intake import Accepted
from frazil.web.failures import Failure
from frazil.web.grpc.codes import code_of


def response(signal: Signal, accepted: Accepted) -> Message:
    """Returns the response, which is empty if everything was accepted."""
    message = signal.response()
    if accepted.rejected:
        setattr(message.partial_success, signal.rejected_field, accepted.rejected)
        message.partial_success.error_message = accepted.reason
    return message


def status(failure: Failure) -> Status:
    found = Status(code=code_of(failure.kind).value[0], message=failure.reason)
    if failure.retry_seconds is not None:
        delay = Duration()
        delay.FromNanoseconds(round(failure.retry_seconds * 10**9))
        found.details.add().Pack(RetryInfo(retry_delay=delay))
    return found


def encoded(message: Message, as_json: bool) -> bytes:
    if as_json:
        text: str = json_format.MessageToJson(message, indent=None)
        return text.encode()
    serialized: bytes = message.SerializeToString()
    return serialized
