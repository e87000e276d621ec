"""What the Kafka client says of itself goes to our log; the same thing only once in a while."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

QUIET_SECONDS = 60.0
_MOST = 200
"""Different things remembered at a time."""

_CHANGING = re.compile(r"\d+")
_IGNORED = ("CONFWARN",)
"""Settings of consumers that another kind of client has no use for."""


class Seldom(logging.Filter):
    """Lets a line pass, and those that differ from it only in numbers not before a while.

    A broker that is down would otherwise be told of with every try to reach it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text.startswith(_IGNORED):
            return False
        key = _CHANGING.sub("0", text)
        now = self._clock()
        if now - self._told.pop(key, -QUIET_SECONDS) < QUIET_SECONDS:
            self._told[key] = now
            return False
        if len(self._told) >= _MOST:
            self._told.clear()
        self._told[key] = now
        return True


def client_logger() -> logging.Logger:
    """Where the clients of this process write to."""
    logger = logging.getLogger("frazil.kafka.client")
    if not any(isinstance(each, Seldom) for each in logger.filters):
        logger.addFilter(Seldom())
    return logger
