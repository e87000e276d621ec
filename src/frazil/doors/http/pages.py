"""Reads a page of messages of a topic, and says where the next page begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.doors.http.positions import check_partitions, format_positions
from frazil.topics.messages import MessageRun
from frazil.topics.read.cursor import PartitionCursor
from frazil.topics.read.starts import Start
from frazil.topics.storage import TopicStorage

PAGE_BYTES = 4 * 1024 * 1024
"""The messages of an answer have at most this many bytes, unless a single one is larger."""


@dataclass(frozen=True)
class Page:
    runs: Sequence[MessageRun]
    """They are in the order of their partitions and offsets."""
    next: str
    """The next page begins at these offsets."""
    at_end: bool
    """It is true if there were no more messages when the page was read."""

    @property
    def nbytes(self) -> int:
        return sum(run.batch.nbytes for run in self.runs)


async def cursors_of(storage: TopicStorage, topic: str, partition: int | None, start: Start) -> list[PartitionCursor]:
    """Opens cursors for one partition, or for all."""
    count = await storage.partitions(topic)
    check_partitions(start, count)
    named = storage.name(topic).partition
    if partition is None and named is None:
        return [await storage.cursor(topic, each, start) for each in range(count)]
    return [await storage.cursor(topic, named if partition is None else partition, start)]


async def probe(cursors: Sequence[PartitionCursor]) -> None:
    """Raises an error at once if the messages at the cursors cannot be read."""
    for cursor in cursors:
        at = cursor.position
        await cursor.read(1, 1)
        cursor.seek(at)


async def read_page(cursors: Sequence[PartitionCursor], limit: int, most_bytes: int = PAGE_BYTES) -> Page:
    """Reads up to `limit` messages. Each partition has its share, and then what others have left of theirs."""
    runs: dict[int, list[MessageRun]] = {cursor.partition: [] for cursor in cursors}
    left, room = limit, most_bytes
    going = list(cursors)
    while going and left > 0 and room > 0:
        share, size = max(1, left // len(going)), max(1, room // len(going))
        still: list[PartitionCursor] = []
        for cursor in going:
            if left <= 0 or room <= 0:
                still.append(cursor)
                continue
            records = await cursor.read(min(share, left), size)
            if records is not None:
                runs[cursor.partition].append(records)
                left -= len(records.batch)
                room -= records.batch.nbytes
                still.append(cursor)
        going = still
    at_end = not [cursor for cursor in going if cursor.position < await cursor.end()]
    following = format_positions((cursor.partition, cursor.position) for cursor in cursors)
    return Page([run for each in runs.values() for run in each], following, at_end)
