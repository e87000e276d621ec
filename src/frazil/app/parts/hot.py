"""Runs the hot buffer as a part of the process."""

from __future__ import annotations

import asyncio
import sys

from prometheus_client import CollectorRegistry

from frazil.app.parts.log import LogPart
from frazil.config.model import Config
from frazil.errors import ShutdownError
from frazil.hot.api import hot_endpoints
from frazil.hot.metrics import BufferCollector
from frazil.hot.queries import HotBuffer
from frazil.hot.query_threads import QueryThreads
from frazil.ops.health import Health
from frazil.scan.lookup.interface import RowLookup

SWITCH_SECONDS = 0.0005
"""A busy thread may keep others from running Python for this long.

A lookup gives way to other threads several times, and waits this long each time when one of them is busy. With
Python's own 5 ms a row took 64 ms beside a thread that did nothing but count; with this value it took 5 ms.
"""


class HotPart:
    """It starts after the log. `cold` looks up rows that are not in memory."""

    name = "buffer"

    def __init__(
        self, config: Config, log_part: LogPart, metrics: CollectorRegistry, cold: RowLookup | None = None
    ) -> None:
        self._config = config
        self._log_part = log_part
        self._metrics = metrics
        self._cold = cold
        self._hot: HotBuffer | None = None
        self._switch_before = 0.0
        self._threads = QueryThreads()
        self.endpoints = hot_endpoints(config, lambda: self.hot, self._threads)

    @property
    def hot(self) -> HotBuffer:
        if self._hot is None:
            raise ShutdownError("The hot buffer is not running.")
        return self._hot

    async def start(self) -> None:
        """Return at once. The records that the log already has are read in the background."""
        log = self._log_part.log
        hot = HotBuffer(self._config, log, cold=self._cold)
        self._metrics.register(BufferCollector(hot.buffer, log.world.clock))
        hot.start()
        self._hot = hot
        self._switch_before = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH_SECONDS, self._switch_before))

    async def stop(self) -> None:
        hot, self._hot = self.hot, None
        sys.setswitchinterval(self._switch_before)
        self._threads.close()
        await asyncio.to_thread(hot.stop)

    def health(self) -> Health:
        if self._hot is None:
            return Health("degraded", "not running")
        problems: dict[str, object] = {**self.hot.feed.problems(), **self.hot.follower.problems()}
        buffer = self.hot.buffer
        if buffer.is_full:
            problems["memory"] = (
                f"it is full with {buffer.unsealed_bytes:,} bytes that are not sealed yet, of {buffer.max_bytes:,} "
                f"(`buffer.max_size_mb`); sealing is behind, or the store is slow or down"
            )
        return Health.of(problems)
