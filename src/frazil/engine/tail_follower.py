"""Decodes what comes to topics that are queried, before the next query asks for it."""

from __future__ import annotations

import logging
import threading

from frazil.scan.scanner import TopicScanner

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 0.25
USED_SECONDS = 60.0
"""Topics that no query asked for in this time are left alone: decoding costs as much as the doors take."""


def follow_tails(scanner: TopicScanner) -> None:
    """Starts a thread that lives as long as the process."""
    threading.Thread(target=_follow, args=(scanner,), name="frazil-tails", daemon=True).start()


def _follow(scanner: TopicScanner) -> None:
    pause = threading.Event()
    while not pause.wait(INTERVAL_SECONDS):
        try:
            scanner.decode_new(USED_SECONDS)
        except Exception as error:  # noqa: BLE001 - the next query meets it too, and says it
            logger.debug("what came to a topic could not be decoded in advance", extra={"reason": str(error)})
