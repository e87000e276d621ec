"""Follows a partition: yields the records that are there, then every new one as soon as it can be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator

from frazil.log.reader import PartitionReader, Records

STORE_POLL_SECONDS = 0.5
"""A follower on another machine than the writer's looks for new segments this often."""
IN_VAIN_SECONDS = 0.05
"""A follower pauses this long when a writer announced records that cannot be read yet."""
WAIT_SECONDS = 0.5
"""A follower checks this often whether it is to stop, or whether its writer has come or gone."""


def follow(
    reader: PartitionReader, start: int, *, epoch: str | None = None, stop: Callable[[], bool] = lambda: False
) -> Iterator[Records]:
    """Yield records from `start` on until `stop()` is true. Raises `EpochChanged` when the position did not last."""
    woken = False
    while not stop():
        before = start
        for records in reader.read_new(start, epoch):
            yield records
            start, epoch = records.end, records.epoch
        if woken and start == before:
            time.sleep(IN_VAIN_SECONDS)
        if tail := reader.tail:
            woken = tail.wait(start, WAIT_SECONDS)
        else:
            time.sleep(STORE_POLL_SECONDS)


async def follow_async(reader: PartitionReader, start: int, *, epoch: str | None = None) -> AsyncIterator[Records]:
    """Do what `follow` does until the task is cancelled. A thread reads from the store."""
    woken = False
    while True:
        before = start
        news = await asyncio.to_thread(reader.read_new, start, epoch)
        while (records := await asyncio.to_thread(next, news, None)) is not None:
            yield records
            start, epoch = records.end, records.epoch
        if woken and start == before:
            await asyncio.sleep(IN_VAIN_SECONDS)
        if tail := reader.tail:
            woken = await tail.wait_async(start, WAIT_SECONDS)
        else:
            await asyncio.sleep(STORE_POLL_SECONDS)
