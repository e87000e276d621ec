"""The writers of the signals' topics: each is opened when something of its signal comes."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from frazil.doors.otlp.signals import Signal
from frazil.errors import FrazilError
from frazil.log.log import Log
from frazil.log.writer import PartitionWriter


class Writers:
    """Belongs to the event loop."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._writers: dict[str, PartitionWriter] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._problems: dict[str, FrazilError] = {}

    async def of(self, signal: Signal) -> PartitionWriter:
        """Raises what is in the way; whoever asks again may have more luck."""
        if writer := self._writers.get(signal.topic):
            return writer
        async with self._locks[signal.topic]:
            if signal.topic not in self._writers:
                await self._open(signal)
        return self._writers[signal.topic]

    async def _open(self, signal: Signal) -> None:
        try:
            opened = await asyncio.to_thread(self._log.writer, signal.topic, signal.schema)
        except FrazilError as error:
            self._problems[signal.topic] = error
            raise
        self._problems.pop(signal.topic, None)
        self._writers[signal.topic] = opened

    def problems(self) -> dict[str, FrazilError]:
        stopped = {topic: writer.stopped for topic, writer in self._writers.items()}
        return {**self._problems, **{topic: problem for topic, problem in stopped.items() if problem}}
