"""Writes what the Kafka client logs to our log, but the same line only once in a while."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

QUIET_SECONDS = 60.0
_MOST = 200
"""This many different lines are remembered."""

_CHANGING = re.compile(r"\d+")
_IGNORED = ("CONFWARN",)
"""The client warns with it of settings that are for consumers only."""


class RepeatFilter(logging.Filter):
    """Lets a line pass, and holds back lines that differ from it only in numbers for a while.

    Otherwise every attempt to reach a broker that is down would be logged.
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
    """Return the logger of all Kafka clients of this process."""
    logger = logging.getLogger("frazil.kafka.client")
    if not any(isinstance(each, RepeatFilter) for each in logger.filters):
        logger.addFilter(RepeatFilter())
    return logger
