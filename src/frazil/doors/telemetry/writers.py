"""Opens the writer of each topic when the first request for it comes."""

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
    """The open writers. It belongs to the event loop."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._writers: dict[str, PartitionWriter] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._problems: dict[str, FrazilError] = {}

    def has(self, kind: RequestKind) -> bool:
        """Returns whether the writer of the topic is open."""
        return kind.topic in self._writers

    async def of(self, kind: RequestKind) -> PartitionWriter:
        """Returns the writer, and opens it if necessary. Raises the problem if that fails; the next call tries
        again."""
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
