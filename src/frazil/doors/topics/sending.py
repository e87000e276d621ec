"""Answers to clients that may not read them: nobody tells when one vanishes whose connection is full."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from starlette.types import Scope, Send

from frazil.topics.holding import Memory

logger = logging.getLogger(__name__)

STALL_SECONDS = 300.0
"""A reader that takes nothing for so long has gone, or may come back."""
CROWDED_STALL_SECONDS = 10.0
"""The same, while others wait for the memory that it has."""
LOOK_SECONDS = 1.0
"""How often it is looked whether others wait."""


def patiently(send: Send, memory: Memory) -> Send:
    """`TimeoutError` when the client takes nothing for too long."""

    async def send_soon(message: MutableMapping[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        started, sending = loop.time(), asyncio.ensure_future(send(message))
        try:
            while not sending.done():
                stalled = CROWDED_STALL_SECONDS if memory.large.crowded else STALL_SECONDS
                if loop.time() - started > stalled:
                    raise TimeoutError
                await asyncio.wait([sending], timeout=min(stalled, LOOK_SECONDS))
            sending.result()
        finally:
            sending.cancel()

    return send_soon


@contextmanager
def letting_go(scope: Scope) -> Iterator[None]:
    """Of a client that takes nothing."""
    try:
        yield
    except TimeoutError:
        logger.info("a reader of messages reads nothing, and is let go", extra={"path": scope["path"]})
