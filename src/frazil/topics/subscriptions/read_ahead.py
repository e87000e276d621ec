"""Reads one partition ahead of its consumers, as far as there is room."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from frazil.backoff import Backoff
from frazil.errors import EpochChanged, FrazilError
from frazil.topics.messages import MessageRun
from frazil.topics.read.batch_slices import copy_if_sparse
from frazil.topics.read.cursor import Cursor
from frazil.topics.subscriptions.delivery import Delivery
from frazil.topics.subscriptions.epoch_end import OpenCursor, find_epoch_end
from frazil.topics.subscriptions.subscription_name import SubscriptionName

READ_BYTES = 4 * 1024 * 1024
WAIT_SECONDS = 1.0
"""A cursor waits this long for messages before it reads again."""

_BACKOFF = Backoff()

logger = logging.getLogger(__name__)


class ReadAhead:
    def __init__(
        self,
        full_name: SubscriptionName,
        partition: int,
        *,
        delivery: Delivery,
        cursors: OpenCursor,
        reads: asyncio.Semaphore,
        take: Callable[[MessageRun], None],
        report: Callable[[int, FrazilError], None],
    ) -> None:
        """`take` receives what was read, and `report` why reading cannot go on. `reads` limits concurrent reads."""
        self._full_name = full_name
        self._partition = partition
        self._delivery = delivery
        self._cursors = cursors
        self._reads = reads
        self._take = take
        self._report = report
        self._least = max(1, delivery.options.prefetch_size // 4)
        """Fewer rows than this are not worth a read."""
        self._room = asyncio.Event()

    def notify_room(self) -> None:
        """Wakes the reader if there is room now."""
        if not self._room.is_set() and self._delivery.wants(self._partition) >= self._least:
            self._room.set()

    async def run(self) -> None:
        """Reads until the task is cancelled, or the partition cannot be read on."""
        failed, rng = 0, random.Random()
        progress = self._delivery.backlogs[self._partition].progress
        cursor: Cursor | None = None
        changed: EpochChanged | None = None
        back: int | None = None
        """This is where an epoch ended, until something of the next one was read."""
        while True:
            rows = await self._rows()
            offset = self._delivery.next_offset(self._partition) if back is None else back
            try:
                if changed is not None:
                    back = await find_epoch_end(self._cursors, self._partition, progress.epoch, offset)
                    if back is None:
                        self._report(self._partition, changed)
                        return
                    offset, changed = back, None
                if cursor is None:
                    cursor = await self._cursors(self._partition, offset, progress.epoch)
                elif cursor.position != offset:
                    cursor.seek(offset)
                most = max(1, min(READ_BYTES, self._delivery.room(self._partition)))
                async with self._reads:
                    records = await cursor.read(rows, most)
                if records is None:
                    await cursor.wait(WAIT_SECONDS)
                else:
                    back = None
                    self._take(records._replace(batch=copy_if_sparse(records.batch)))
                failed = 0
            except EpochChanged as error:
                cursor, changed = None, error
            except FrazilError as error:
                if not error.retryable:
                    self._report(self._partition, error)
                    return
                cursor = None
                failed += 1
                await self._pause(error, _BACKOFF.delay(failed - 1, rng))

    async def _rows(self) -> int:
        """Waits until it is worth reading, and returns how many rows to read."""
        while (rows := self._delivery.wants(self._partition)) < self._least:
            self._room.clear()
            await self._room.wait()
        return rows

    async def _pause(self, error: FrazilError, seconds: float) -> None:
        logger.warning(
            "cannot read a partition; trying again",
            extra={"subscription": str(self._full_name), "partition": self._partition, "reason": str(error)},
        )
        await asyncio.sleep(seconds)
