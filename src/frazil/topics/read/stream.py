"""Reads all partitions of a topic as one stream, which is in order within each partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from frazil.topics.messages import MessageRun
from frazil.topics.read.cursor import PartitionCursor

MAX_ROWS = 4096
MAX_BYTES = 4 * 1024 * 1024
"""One run of messages has at most this many rows and bytes."""
WAIT_SECONDS = 5.0


async def stream(
    cursors: Sequence[PartitionCursor],
    *,
    prefetch: int,
    ends: Mapping[int, int] | None = None,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> AsyncIterator[MessageRun]:
    """Yields runs of messages. Each partition reads at most `prefetch` runs ahead.

    It stops at `ends` if they are given, else it continues with new messages.
    """
    runs: asyncio.Queue[MessageRun | None] = asyncio.Queue()
    room = {cursor.partition: asyncio.Semaphore(prefetch) for cursor in cursors}

    async def pump(cursor: PartitionCursor) -> None:
        end = None if ends is None else ends[cursor.partition]
        while end is None or cursor.position < end:
            await room[cursor.partition].acquire()
            most = max_rows if end is None else min(max_rows, end - cursor.position)
            while (records := await cursor.read(most, max_bytes)) is None:
                await cursor.wait(WAIT_SECONDS)
            runs.put_nowait(records)

    pumps = [asyncio.create_task(pump(cursor)) for cursor in cursors]
    for task in pumps:
        task.add_done_callback(lambda _: runs.put_nowait(None))
    try:
        ended = 0
        while ended < len(pumps):
            records = await runs.get()
            if records is None:
                ended += 1
                for task in pumps:
                    if task.done() and not task.cancelled():
                        task.result()
                continue
            room[records.partition].release()
            yield records
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
