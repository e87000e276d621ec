"""Translates what an error is to a status code of gRPC.

Clients retry UNAVAILABLE and RESOURCE_EXHAUSTED for as long as it takes, and show all other errors to their users. So
these two codes are only for what may succeed the next time, and for failures of the server that somebody will repair.
"""

from __future__ import annotations

import grpc

from frazil.web.failures import INTERNAL, FailureKind


def code_of(kind: FailureKind) -> grpc.StatusCode:
    if kind is INTERNAL:
        return grpc.StatusCode.UNAVAILABLE
    found: grpc.StatusCode = grpc.StatusCode[kind.grpc]
    return found
