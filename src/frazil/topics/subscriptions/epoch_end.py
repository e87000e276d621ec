"""Finds the offset at which an epoch ended by trying to read. The log can be read on only from there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from frazil.errors import EpochChanged
from frazil.topics.read.cursor import Cursor

OpenCursor = Callable[[int, int, str], Awaitable[Cursor]]
"""Opens a cursor for a partition at an offset of an epoch. The epoch is empty when it is unknown."""


async def find_epoch_end(cursors: OpenCursor, partition: int, epoch: str, offset: int) -> int | None:
    """Returns the offset at which `epoch` ended, below an `offset` that cannot be read in it, or None if it is
    unknown.

    Only the newest messages before a crash are lost, so the search begins near `offset`.
    """

    async def lasts(at: int) -> bool:
        try:
            await (await cursors(partition, at, epoch)).read(1, 1)
        except EpochChanged:
            return False
        return True

    high, step = offset, 1
    while not await lasts(low := max(0, high - step)):
        if low == 0:
            return None
        high, step = low, step * 2
    while high - low > 1:
        middle = (low + high) // 2
        if await lasts(middle):
            low = middle
        else:
            high = middle
    return low
