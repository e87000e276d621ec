"""Bounds the bytes of rows that are decoded but not stored yet.

A small body may become large when it is decompressed, and larger as rows. So decoding waits while there are too many
such rows. Requests that arrive meanwhile wait undecoded, as far as `Admission` lets them in.
"""

from __future__ import annotations

import asyncio


class UnstoredRows:
    """Counts the bytes. It belongs to the event loop, and all intakes share one."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._used = 0
        self._freed = asyncio.Event()

    async def wait_for_room(self) -> None:
        """Returns when more may be decoded."""
        while self._used >= self._most:
            self._freed.clear()
            await self._freed.wait()

    def change(self, nbytes: int) -> None:
        self._used += nbytes
        if nbytes < 0:
            self._freed.set()
