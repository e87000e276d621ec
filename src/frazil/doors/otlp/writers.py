"""The writers of the signals' topics, opened in the background: a store that is away is waited for."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable

from frazil.backoff import Backoff
from frazil.doors.otlp.signals import Signal
from frazil.errors import FrazilError, ShutdownError
from frazil.log.log import Log
from frazil.log.writer import PartitionWriter

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
_BACKOFF = Backoff(base_seconds=0.1, longest_seconds=5.0, max_attempts=1)


class Writers:
    """Belongs to the event loop."""

    def __init__(self, log: Log, signals: Iterable[Signal]) -> None:
        self._log = log
        self._signals = {signal.topic: signal for signal in signals}
        self._writers: dict[str, PartitionWriter] = {}
        self._problems: dict[str, FrazilError] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Return when all are open, or at least have been tried for a while."""
        self._tasks = [asyncio.create_task(self._open(signal)) for signal in self._signals.values()]
        await asyncio.wait(self._tasks, timeout=PATIENCE_SECONDS)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._writers.clear()

    def of(self, signal: Signal) -> PartitionWriter:
        """Raises while the topic cannot be written."""
        writer = self._writers.get(signal.topic)
        if writer is None:
            raise self._problems.get(signal.topic) or ShutdownError(f"The topic {signal.topic!r} is not open.")
        return writer

    def problems(self) -> dict[str, FrazilError]:
        stopped = {topic: writer.stopped for topic, writer in self._writers.items()}
        return {**self._problems, **{topic: problem for topic, problem in stopped.items() if problem}}

    async def _open(self, signal: Signal) -> None:
        rng, failures = random.Random(), 0
        while True:
            try:
                writer = await asyncio.to_thread(self._log.writer, signal.topic, signal.schema)
            except FrazilError as error:
                self._problems[signal.topic] = error
                logger.warning("cannot open a topic", extra={"topic": signal.topic, "reason": str(error)})
                failures += 1
                await asyncio.sleep(_BACKOFF.delay(failures, rng))
                continue
            self._problems.pop(signal.topic, None)
            self._writers[signal.topic] = writer
            return
