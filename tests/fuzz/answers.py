"""Answers of doors, over HTTP and over gRPC, and texts that must not be in them."""

from __future__ import annotations

from typing import NamedTuple

import grpc
import grpc.aio

_STATUSES = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.UNIMPLEMENTED: 405,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNAVAILABLE: 503,
}
INTERNAL = ("Traceback", "panicked", "pyo3", "ptars", "site-packages", "object at 0x", "<class ", ".py", ".rs:")
"""These texts would reveal the inside of the server."""


class Answer(NamedTuple):
    status: int
    """The status is that of HTTP; codes of gRPC are translated."""
    text: str


def of_error(error: grpc.aio.AioRpcError) -> Answer:
    return of_code(error.code(), error.details() or "")


def of_code(code: grpc.StatusCode, details: str) -> Answer:
    return Answer(_STATUSES.get(code, 500), f"{code.name}: {details}")
