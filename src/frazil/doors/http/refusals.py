"""Turns errors into HTTP answers that say why something cannot be done."""

from __future__ import annotations

from starlette.responses import Response

from frazil.doors.http.bodies import Encoded, TooLarge
from frazil.errors import (
    BufferFull,
    CallError,
    ConsumerGone,
    ConsumerRefused,
    EpochChanged,
    FrazilError,
    MemoryAlignment,
    MessageTooLarge,
    OffsetGone,
    OffsetOutOfRange,
    PartitionDamaged,
    RecordTooLarge,
    RequestError,
    SequenceTooOld,
    SubscriptionFenced,
    SubscriptionMismatch,
    SubscriptionNotFound,
    TopicMismatch,
    TopicNotFound,
)
from frazil.web.answers import problem
from frazil.web.bodies import BodyStalled


def refusal(error: FrazilError) -> Response:
    if isinstance(error, OffsetGone):
        return problem(410, error, first_offset=error.first_left)
    response = problem(_status(error), error)
    if error.retryable:
        response.headers["retry-after"] = "1"
    return response


def _status(error: FrazilError) -> int:
    match error:
        case TopicNotFound() | SubscriptionNotFound():
            return 404
        case (
            TopicMismatch()
            | SequenceTooOld()
            | EpochChanged()
            | SubscriptionMismatch()
            | SubscriptionFenced()
            | ConsumerRefused()
            | ConsumerGone()
        ):
            return 409
        case TooLarge() | MessageTooLarge() | RecordTooLarge():
            return 413
        case BodyStalled():
            return 408
        case Encoded():
            return 415
        case RequestError() | OffsetOutOfRange() | CallError() | MemoryAlignment():
            return 400
        case BufferFull():
            return 429
        case PartitionDamaged():
            return 503
    return 503 if error.retryable else 500
