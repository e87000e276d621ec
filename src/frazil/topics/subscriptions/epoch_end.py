"""Where an epoch ended, found by asking: a log can be read from there on, and not from the next offset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from frazil.errors import EpochChanged
from frazil.topics.read.cursor import Cursor

OpenCursor = Callable[[int, int, str], Awaitable[Cursor]]
"""A cursor for a partition, at an offset of an epoch; the epoch is empty when it is not known."""


async def find_epoch_end(cursors: OpenCursor, partition: int, epoch: str, offset: int) -> int | None:
    """The offset at which `epoch` ended, below an `offset` that cannot be read in it. None if it is not known.

    What did not last are the newest messages before a crash, so the search begins near `offset`.
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
