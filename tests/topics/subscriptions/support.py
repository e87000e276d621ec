"""Has helpers for tests of subscriptions."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from frazil.errors import OffsetGone
from frazil.log.epochs import Epochs
from frazil.topics.messages import Message, MessageRun, to_batch
from frazil.topics.subscriptions.journal import Journal


def key_of(offset: int) -> str:
    return f"k{offset * 7 % 5}"


def payload_of(partition: int, offset: int, epoch: str = "e1") -> bytes:
    return f"{epoch}/{partition}/{offset}".encode()


def messages(partition: int, start: int, end: int, epoch: str = "e1") -> pa.RecordBatch:
    return to_batch(
        [
            Message(payload_of(partition, offset, epoch), publish_time_ms=offset, routing_key=key_of(offset))
            for offset in range(start, end)
        ],
        0,
    )


def records(partition: int, start: int, end: int, epoch: str = "e1") -> MessageRun:
    return MessageRun(partition, start, messages(partition, start, end, epoch), epoch)


class MemoryTopic:
    """Has partitions in memory, which can lose messages."""

    def __init__(self, partitions: int = 1) -> None:
        self.ends = dict.fromkeys(range(partitions), 0)
        self.gone = dict.fromkeys(range(partitions), 0)
        """Messages below these offsets are gone."""
        self.epochs = Epochs((("e1", 0),))
        """These are the epochs of all partitions."""
        self.changed = asyncio.Event()

    def produce(self, partition: int, rows: int) -> None:
        self.ends[partition] += rows
        self.changed.set()
        self.changed = asyncio.Event()

    def lose_tail(self, partition: int, border: int, epoch: str) -> None:
        """Loses the newest messages; others will come in their place."""
        self.ends[partition] = border
        self.epochs = self.epochs.begin(epoch, border)

    async def cursor(self, partition: int, offset: int, epoch: str) -> MemoryCursor:
        return MemoryCursor(self, partition, offset, epoch)


class MemoryCursor:
    def __init__(self, topic: MemoryTopic, partition: int, offset: int, epoch: str = "") -> None:
        self.position = offset
        self._epoch = epoch
        self._topic = topic
        self._partition = partition

    async def read(self, max_rows: int, max_bytes: int) -> MessageRun | None:
        await asyncio.sleep(0)
        left = self._topic.gone[self._partition]
        if self.position < left:
            raise OffsetGone(left)
        epochs = self._topic.epochs
        if self._epoch:
            epochs.check(self._epoch, self.position, f"partition {self._partition}")
        borders = [start for _, start in epochs.history if start > self.position]
        end = min([self.position + max_rows, self._topic.ends[self._partition], *borders])
        if end <= self.position:
            return None
        self._epoch = epochs.at(self.position)
        run = records(self._partition, self.position, end, self._epoch)
        self.position = end
        return run

    async def wait(self, timeout: float) -> bool:
        changed = self._topic.changed
        if self.position >= self._topic.ends[self._partition]:
            try:
                await asyncio.wait_for(changed.wait(), timeout)
            except TimeoutError:
                return False
        return True

    def seek(self, offset: int) -> None:
        self.position, self._epoch = offset, ""


def crash(journal: Journal) -> None:
    """Release the journal as a killed process does."""
    journal._closed = True
    if journal._timer:
        journal._timer.cancel()
    journal._thread.shutdown()
    journal._folder.close()
