"""Says how the doors for telemetry answer errors.

Clients retry only if the code says that it may help: 400 and the like for what can never be accepted, 429 for too
much, 503 for everything else that is not stored. What is not stored is never answered with 200, and never with 500,
because clients then drop their data.
"""

from __future__ import annotations

from dataclasses import replace

from frazil.errors import RequestError
from frazil.web.failures import (
    BUSY,
    INVALID,
    RETRY_SECONDS,
    TENANT_TOO_MUCH,
    TOO_LARGE,
    UNAVAILABLE,
    UNSUPPORTED_BODY,
    Failure,
    failure_of,
)

_TOLD_APART = (TOO_LARGE, UNSUPPORTED_BODY, TENANT_TOO_MUCH, BUSY)


def refusal(error: BaseException) -> Failure:
    failure = failure_of(error)
    if failure.kind in _TOLD_APART:
        return failure
    if isinstance(error, RequestError):
        return replace(failure, kind=INVALID, retry_seconds=None)
    return replace(failure, kind=UNAVAILABLE, retry_seconds=RETRY_SECONDS)
