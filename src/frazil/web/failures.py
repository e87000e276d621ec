"""Says what an error is to the client of a request: the one table behind the status codes of all protocols.

A class of errors that is not in the table is what its nearest base class is. All others are failures of the server:
`UNAVAILABLE` if the same request may succeed later, else `INTERNAL`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from frazil.errors import (
    BodyTooLarge,
    BodyUnsupported,
    BufferFull,
    CallError,
    ConsumerGone,
    ConsumerRefused,
    EpochChanged,
    FrazilError,
    IdUnknown,
    InvalidTopic,
    LogCorrupted,
    MemoryAlignment,
    MessageParse,
    MessageTooLarge,
    NotBuffered,
    NotSupported,
    OffsetGone,
    OffsetOutOfRange,
    PartitionDamaged,
    ProducerRefused,
    QueriesBusy,
    QueryTimeout,
    QueryTooLarge,
    RateExceeded,
    RecordTooLarge,
    RequestCancelled,
    RequestError,
    SequenceTooOld,
    SubscriptionFenced,
    SubscriptionMismatch,
    SubscriptionNotFound,
    TableDamaged,
    TooMuch,
    TopicMismatch,
    TopicNotFound,
)
from frazil.web.bodies import BodyStalled
from frazil.web.error_texts import text_for_client

RETRY_SECONDS = 1.0
"""A client is told to wait this long, unless the error knows better."""


@dataclass(frozen=True)
class FailureKind:
    """Is one answer to the question of what went wrong. `grpc` is the name of the status code there."""

    name: str
    http: int
    grpc: str


INVALID = FailureKind("invalid", 400, "INVALID_ARGUMENT")
TOO_COSTLY = FailureKind("too costly", 400, "INVALID_ARGUMENT")
"""The query is understood, and needs more than a query may have."""
NOT_FOUND = FailureKind("not found", 404, "NOT_FOUND")
NOT_SUBSCRIBED = FailureKind("not subscribed", 404, "INVALID_ARGUMENT")
"""A client speaks of a subscription that it does not have. Over gRPC only topics and ids are NOT_FOUND."""
OTHERWISE_SUBSCRIBED = FailureKind("otherwise subscribed", 409, "INVALID_ARGUMENT")
"""The subscription, or its consumer, is another than the client takes it for."""
STALLED = FailureKind("stalled", 408, "UNAVAILABLE")
CONFLICT = FailureKind("conflict", 409, "FAILED_PRECONDITION")
MOVED = FailureKind("moved", 409, "UNAVAILABLE")
"""What the client works with was replaced. It can begin anew."""
EXISTS = FailureKind("exists", 409, "ALREADY_EXISTS")
TAKEN = FailureKind("taken", 409, "PERMISSION_DENIED")
GONE = FailureKind("gone", 410, "OUT_OF_RANGE")
TOO_LARGE = FailureKind("too large", 413, "INVALID_ARGUMENT")
UNSUPPORTED_BODY = FailureKind("unsupported body", 415, "INVALID_ARGUMENT")
UNREADABLE = FailureKind("unreadable", 422, "DATA_LOSS")
"""What was asked for is there, and cannot be decoded."""
TENANT_TOO_MUCH = FailureKind("tenant too much", 429, "RESOURCE_EXHAUSTED")
BUSY = FailureKind("busy", 429, "RESOURCE_EXHAUSTED")
"""The server as a whole has too much to do, and not only one tenant."""
CANCELLED = FailureKind("cancelled", 499, "CANCELLED")
INTERNAL = FailureKind("internal", 500, "INTERNAL")
NOT_SUPPORTED = FailureKind("not supported", 501, "UNIMPLEMENTED")
DAMAGED = FailureKind("damaged", 500, "DATA_LOSS")
STOPPED = FailureKind("stopped", 503, "DATA_LOSS")
"""A partition is damaged, and works again when it is repaired."""
UNAVAILABLE = FailureKind("unavailable", 503, "UNAVAILABLE")
TIMEOUT = FailureKind("timeout", 504, "DEADLINE_EXCEEDED")

_KINDS: dict[type[BaseException], FailureKind] = {
    RequestError: INVALID,
    CallError: INVALID,
    OffsetOutOfRange: INVALID,
    MemoryAlignment: INVALID,
    InvalidTopic: INVALID,
    QueryTooLarge: TOO_COSTLY,
    TopicNotFound: NOT_FOUND,
    SubscriptionNotFound: NOT_SUBSCRIBED,
    NotBuffered: NOT_FOUND,
    IdUnknown: NOT_FOUND,
    BodyStalled: STALLED,
    TopicMismatch: CONFLICT,
    SubscriptionMismatch: OTHERWISE_SUBSCRIBED,
    SubscriptionFenced: MOVED,
    ConsumerGone: OTHERWISE_SUBSCRIBED,
    SequenceTooOld: CONFLICT,
    EpochChanged: MOVED,
    ProducerRefused: EXISTS,
    ConsumerRefused: TAKEN,
    OffsetGone: GONE,
    BodyTooLarge: TOO_LARGE,
    MessageTooLarge: TOO_LARGE,
    RecordTooLarge: TOO_LARGE,
    BodyUnsupported: UNSUPPORTED_BODY,
    MessageParse: UNREADABLE,
    RateExceeded: TENANT_TOO_MUCH,
    TooMuch: BUSY,
    BufferFull: BUSY,
    QueriesBusy: BUSY,
    RequestCancelled: CANCELLED,
    NotSupported: NOT_SUPPORTED,
    LogCorrupted: DAMAGED,
    PartitionDamaged: STOPPED,
    TableDamaged: DAMAGED,
    QueryTimeout: TIMEOUT,
}


@dataclass(frozen=True)
class Failure:
    """Is an error as a client may see it."""

    kind: FailureKind
    reason: str
    retry_seconds: float | None = None

    @property
    def http(self) -> int:
        return self.kind.http

    @property
    def headers(self) -> dict[str, str]:
        """Returns the headers of an HTTP answer."""
        return {} if self.retry_seconds is None else {"retry-after": str(max(1, ceil(self.retry_seconds)))}


def failure_of(error: BaseException) -> Failure:
    """Returns what to tell the client. What it must not see is logged."""
    # The reason may quote the client, and that may not be text that can be sent back.
    reason = text_for_client(error).encode(errors="backslashreplace").decode()
    return Failure(kind_of(error), reason, _retry_seconds(error))


def kind_of(error: BaseException) -> FailureKind:
    found = _in_table(type(error))
    if found is not None:
        return found
    return UNAVAILABLE if isinstance(error, FrazilError) and error.retryable else INTERNAL


def _in_table(error: type[BaseException]) -> FailureKind | None:
    return next((_KINDS[each] for each in error.__mro__ if each in _KINDS), None)


def _retry_seconds(error: BaseException) -> float | None:
    if isinstance(error, TooMuch):
        return error.seconds
    return RETRY_SECONDS if isinstance(error, FrazilError) and error.retryable else None
