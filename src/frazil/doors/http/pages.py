"""Some messages of a topic, and where to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.doors.http.positions import check_partitions, format_positions
from frazil.topics.messages import MessageRun
from frazil.topics.read.cursor import PartitionCursor
from frazil.topics.read.starts import Start
from frazil.topics.storage import TopicStorage

PAGE_BYTES = 4 * 1024 * 1024
"""Of messages in an answer, unless a single one is larger."""


@dataclass(frozen=True)
class Page:
    runs: Sequence[MessageRun]
    """In order of their partitions; those of one partition follow each other."""
    next: str
    """The offset to go on with."""
    at_end: bool
    """There were no more when it was read."""

    @property
    def nbytes(self) -> int:
        return sum(run.batch.nbytes for run in self.runs)


async def cursors_of(storage: TopicStorage, topic: str, partition: int | None, start: Start) -> list[PartitionCursor]:
    """Readers of one partition, or of all."""
    count = await storage.partitions(topic)
    check_partitions(start, count)
    named = storage.name(topic).partition
    if partition is None and named is None:
        return [await storage.cursor(topic, each, start) for each in range(count)]
    return [await storage.cursor(topic, named if partition is None else partition, start)]


async def probe(cursors: Sequence[PartitionCursor]) -> None:
    """What is not there is said at once."""
    for cursor in cursors:
        at = cursor.position
        await cursor.read(1, 1)
        cursor.seek(at)


async def read_page(cursors: Sequence[PartitionCursor], limit: int, most_bytes: int = PAGE_BYTES) -> Page:
    """Up to `limit` messages. Each partition has its share, and then what others have left of theirs."""
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
