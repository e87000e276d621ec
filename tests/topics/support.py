"""Makes topics of messages on a real log and a real catalog, moved to tables by the code of the real tasks."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from frazil.lake.commit.complete_offsets import complete_from_properties
from frazil.log.log import Log
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.segments.trim import trim
from frazil.topics.messages import Message, MessageRun, from_batch
from frazil.topics.read.cursor import PartitionCursor
from frazil.topics.storage import TopicStorage
from tests.lake.commit.commits import expire
from tests.log.support import crash
from tests.query.support import World

TOPIC = "shop.orders"
TIME = 1_700_000_000_000
LOTS = 1 << 30


def numbered(start: int, count: int, **more: Any) -> list[Message]:
    """Makes messages that contain their number, published one millisecond after the other."""
    return [Message(str(number).encode(), TIME + number, **more) for number in range(start, start + count)]


def numbers(records: Sequence[MessageRun]) -> list[int]:
    return [int(message.payload) for run in records for message in from_batch(run.batch)]


class Shop(World):
    """Has a data folder with topics. Create it inside the event loop that uses it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.topics = TopicStorage(self.log)

    def __enter__(self) -> Self:
        return self

    def trim(self, partition: int = 0, topic: str = TOPIC, *, needed_from: int = 10**9, delete: bool = True) -> int:
        """Trims as if tables had everything before `needed_from`. `delete` also deletes, as after the grace time."""
        grace = 0 if delete else 3600
        now = int(time.time() * 1000)
        return trim(self.log.store, topic, partition, needed_from=needed_from, grace_seconds=grace, now_ms=now).low

    async def segments(self, *counts: int, partition: int = 0, start: int = 0, topic: str = TOPIC) -> int:
        """Makes one segment for each count, and returns the next number."""
        for count in counts:
            await self.topics.store(topic, numbered(start, count), partition=partition)
            self.seal(topic, partition)
            start += count
        return start

    def shuffle(self, topic: str = TOPIC, seed: int = 0) -> None:
        """Rewrites all files of the table into one, in random order."""
        table = self.table(topic)
        rows = table.scan().to_arrow()
        if len(rows):
            order = list(range(len(rows)))
            random.Random(seed).shuffle(order)
            table.overwrite(rows.take(pa.array(order)))

    def expire(self, topic: str = TOPIC) -> None:
        """Expires all snapshots but the newest, with their files."""
        expire(self.topics._lake, self.table(topic).name())

    def retain(self, first: int, partition: int = 0, topic: str = TOPIC) -> None:
        """Makes the table's retention remove all messages before this offset."""
        table = self.table(topic)
        with table.transaction() as transaction:
            transaction.set_properties(complete_from_properties(table, {partition: first - 1}))
        self.table(topic).delete(f"{PARTITION} == {partition} and {OFFSET} < {first}")

    def table_offsets(self, partition: int = 0, topic: str = TOPIC) -> list[int]:
        rows = self.table(topic).scan().to_arrow()
        found: list[int] = rows.filter(pc.field(PARTITION) == partition)[OFFSET].to_pylist()
        return sorted(found)

    def kill(self) -> None:
        """Lets go of everything as a killed process does."""
        kill(self.log)


def kill(log: Log) -> None:
    log._sealer.stop()
    log._syncer.stop()
    for writer in log.writers:
        crash(writer)
    log._executor.shutdown(wait=True)


async def read_all(cursor: PartitionCursor, max_rows: int = LOTS, max_bytes: int = LOTS) -> list[int]:
    """Returns the numbers of all messages up to the end, and checks that their offsets are successive."""
    found: list[MessageRun] = []
    at = cursor.position
    while (run := await cursor.read(max_rows, max_bytes)) is not None:
        assert run.first == at
        assert 0 < len(run.batch) <= max_rows
        assert cursor.position == run.end
        at = run.end
        found.append(run)
    return numbers(found)
