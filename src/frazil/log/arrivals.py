"""Waits for new records of a topic, without reading them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from frazil.log import layout
from frazil.log.follow import STORE_POLL_SECONDS
from frazil.log.log import Log
from frazil.log.wal.recovery import is_wal
from frazil.log.wal_follower import WalTail


class _Waits(Protocol):
    async def wait_async(self, offset: int, timeout: float) -> bool: ...


class Arrivals:
    """Watches the writers of this process if it has a log, else the WALs on this machine. Where neither is, records
    come from elsewhere, and nobody can tell when."""

    def __init__(self, topic: str, data_dir: Path, log: Callable[[], Log] | None) -> None:
        self._topic = topic
        self._folder = layout.wal_root(data_dir) / topic
        self._data_dir = data_dir
        self._log = log

    async def wait(self, offsets: Mapping[int, int], timeout: float) -> bool:
        """Returns whether there may be records at or after these offsets, by partition, before the time is over."""
        tails = self._written_here() or self._in_wals()
        if not tails:
            await asyncio.sleep(min(timeout, STORE_POLL_SECONDS))
            return True
        waiting = {
            asyncio.create_task(tail.wait_async(offsets.get(partition, 0), timeout))
            for partition, tail in tails.items()
        }
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return any(task.result() for task in done)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _written_here(self) -> dict[int, _Waits]:
        if self._log is None:
            return {}
        return {
            writer.partition: writer.tail
            for writer in self._log().writers
            if writer.topic == self._topic and writer.stopped is None
        }

    def _in_wals(self) -> dict[int, _Waits]:
        children = list(self._folder.iterdir()) if self._folder.is_dir() else []
        found = {layout.parse_partition(child.name): child for child in children}
        return {
            partition: WalTail(layout.wal_directory(self._data_dir, self._topic, partition))
            for partition, child in found.items()
            if partition is not None and is_wal(child)
        }
