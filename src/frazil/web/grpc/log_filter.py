"""Limits what gRPC itself logs about malformed calls.

Anybody can cause these entries, and they are not faults of the server, so they are logged once a second at most.
"""

from __future__ import annotations

import logging

from frazil.ops.throttle import Throttle

TOLD_SECONDS = 1.0
_LOGGER = "grpc._cython.cygrpc"
_OF_CLIENTS = {"UnicodeDecodeError", "ExecuteBatchError"}
"""A method name that is not UTF-8, and a client that disconnected before it got the answer."""


class _OfClients(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._told = Throttle(TOLD_SECONDS)

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.exc_info[0] if record.exc_info else None
        if kind is None or kind.__name__ not in _OF_CLIENTS:
            return True
        left_out = self._told.admit()
        if left_out is None:
            return False
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        record.exc_info = None
        record.left_out = left_out
        return True


_FILTER = _OfClients()


def quieten() -> None:
    """Installs the filter. Calling it again changes nothing."""
    logging.getLogger(_LOGGER).addFilter(_FILTER)
