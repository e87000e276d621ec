"""Rows that are decoded and not stored yet.

A small body may become large when it is decompressed, and larger as rows. So decoding waits while there are too many
of these; what comes meanwhile waits as it came, as far as `Admission` lets it in.
"""

from __future__ import annotations

import asyncio


class UnstoredRows:
    """Belongs to the event loop; all that decode share one."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._used = 0
        self._freed = asyncio.Event()

    async def wait_for_room(self) -> None:
        """Return when more may be decoded."""
        while self._used >= self._most:
            self._freed.clear()
            await self._freed.wait()

    def change(self, nbytes: int) -> None:
        self._used += nbytes
        if nbytes < 0:
            self._freed.set()
