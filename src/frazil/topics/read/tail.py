"""Reads the newest messages of a partition from memory. Readers that keep up use only this, and never block."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import pyarrow as pa

from frazil.errors import OffsetOutOfRange
from frazil.log.schema.schema import conform
from frazil.log.tail import Tail
from frazil.log.wal.entries import Entry
from frazil.topics.messages import MESSAGE, MessageRun
from frazil.topics.read.batch_slices import head

REMEMBERED = 512
REMEMBERED_BYTES = 16 * 1024 * 1024
"""Decoded batches up to this number and size are kept for other readers of the same messages."""
MOST_ENTRIES = 64
"""So many appends are joined into one run. More would keep others waiting."""


class MessageTail:
    """Is shared by all readers of a partition. Belongs to the event loop."""

    def __init__(self, topic: str, partition: int, tail: Callable[[], Tail | None]) -> None:
        self._where = f"{topic}/{partition}"
        self._partition = partition
        self._tail = tail
        self._decoded: OrderedDict[tuple[int, int], tuple[pa.RecordBatch, int]] = OrderedDict()
        self._bytes = 0

    @property
    def tail(self) -> Tail | None:
        return self._tail()

    def has(self, offset: int) -> bool:
        """Returns whether the message at an offset, also one that is still to come, is read from memory."""
        tail = self._tail()
        return tail is not None and tail.start <= offset

    def read(self, offset: int, epoch: str | None, max_rows: int, max_bytes: int) -> MessageRun | None:
        """Returns the messages at an offset if they are in memory.

        Raises `EpochChanged` if the position is not part of the log any more.
        """
        tail = self._tail()
        if tail is None:
            return None
        view = tail.view(offset)
        if offset < view.start or (offset == view.end and (epoch is None or epoch == view.epochs.current)):
            return None
        if epoch is not None and epoch != view.epochs.current:
            view.epochs.check(epoch, offset, self._where)
        if offset >= view.end:
            if offset == view.end:
                return None
            raise OffsetOutOfRange(f"{self._where}: asked for offset {offset}, but the topic ends at {view.end}.")
        return self._joined(view.entries, offset, max_rows, max_bytes, view.epochs.at(offset))

    def _joined(self, entries: list[Entry], offset: int, max_rows: int, max_bytes: int, epoch: str) -> MessageRun:
        batches: list[pa.RecordBatch] = []
        end, size = offset, 0
        for entry in entries[:MOST_ENTRIES]:
            batch = self._batch(entry)
            if end > entry.offset:
                batch = batch.slice(end - entry.offset)
            if batches and (end - offset + len(batch) > max_rows or size + entry.nbytes > max_bytes):
                break
            batches.append(batch)
            end += len(batch)
            size += entry.nbytes
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return MessageRun(self._partition, offset, head(batch, max_rows, max_bytes), epoch)

    def _batch(self, entry: Entry) -> pa.RecordBatch:
        key = (entry.offset, entry.chain)
        found = self._decoded.get(key)
        if found is None:
            found = self._decoded[key] = (conform(entry.batch(), MESSAGE), entry.nbytes)
            self._bytes += entry.nbytes
            while len(self._decoded) > REMEMBERED or (self._bytes > REMEMBERED_BYTES and len(self._decoded) > 1):
                self._bytes -= self._decoded.popitem(last=False)[1][1]
        return found[0]
