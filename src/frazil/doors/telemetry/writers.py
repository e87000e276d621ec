"""The writers of the topics: each is opened when something for its topic comes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace

from frazil.doors.telemetry.request_kind import RequestKind
from frazil.doors.telemetry.segment_encoding import encoding_of
from frazil.errors import FrazilError
from frazil.log.log import Log
from frazil.log.writer.writer import PartitionWriter


class Writers:
    """Belongs to the event loop."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._writers: dict[str, PartitionWriter] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._problems: dict[str, FrazilError] = {}

    def has(self, kind: RequestKind) -> bool:
        """Whether its writer is open."""
        return kind.topic in self._writers

    async def of(self, kind: RequestKind) -> PartitionWriter:
        """Raises what is in the way; whoever asks again may have more luck."""
        if writer := self._writers.get(kind.topic):
            return writer
        async with self._locks[kind.topic]:
            if kind.topic not in self._writers:
                await self._open(kind)
        return self._writers[kind.topic]

    async def _open(self, kind: RequestKind) -> None:
        try:
            opened = await asyncio.to_thread(self._opened, kind)
        except FrazilError as error:
            self._problems[kind.topic] = error
            raise
        self._problems.pop(kind.topic, None)
        self._writers[kind.topic] = opened

    def _opened(self, kind: RequestKind) -> PartitionWriter:
        looked_up = self._log.config.topic(kind.topic).key_column is not None
        options = replace(self._log.options(kind.topic), encoding=encoding_of(kind.schema), looked_up=looked_up)
        return self._log.writer(kind.topic, kind.schema, options=options)

    def problems(self) -> dict[str, FrazilError]:
        stopped = {topic: writer.stopped for topic, writer in self._writers.items()}
        return {**self._problems, **{topic: problem for topic, problem in stopped.items() if problem}}
