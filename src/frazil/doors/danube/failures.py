"""Maps errors to gRPC status codes.

Clients retry UNAVAILABLE and RESOURCE_EXHAUSTED for as long as it takes, and show all other errors to their users. So
these two codes are only for what may succeed the next time.
"""

from __future__ import annotations

import grpc

from frazil.errors import (
    BufferFull,
    CallError,
    ConsumerRefused,
    LogCorrupted,
    RequestError,
    TableDamaged,
    TopicMismatch,
    TopicNotFound,
)


class UnknownId(RequestError):
    """Raised when an id was never given to anybody."""


class ProducerRefused(RequestError):
    """Raised when somebody else produces to a topic exclusively."""


class NotServed(RequestError):
    """Raised when something is asked for that Frazil does not do."""


def code_of(error: BaseException) -> grpc.StatusCode:
    match error:
        case UnknownId() | TopicNotFound():
            return grpc.StatusCode.NOT_FOUND
        case TopicMismatch():
            return grpc.StatusCode.FAILED_PRECONDITION
        case ProducerRefused():
            return grpc.StatusCode.ALREADY_EXISTS
        case ConsumerRefused():
            return grpc.StatusCode.PERMISSION_DENIED
        case NotServed():
            return grpc.StatusCode.UNIMPLEMENTED
        case RequestError() | CallError():
            return grpc.StatusCode.INVALID_ARGUMENT
        case TableDamaged() | LogCorrupted():
            return grpc.StatusCode.DATA_LOSS
        case BufferFull():
            return grpc.StatusCode.RESOURCE_EXHAUSTED
    return grpc.StatusCode.UNAVAILABLE
