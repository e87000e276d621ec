"""A topic as server-sent events: one for each message, and on with those that come.

The id of an event is `partition:offset` of its message, followed by the last offsets of the other partitions that are
read: a client that comes back with the id of the last event it has got goes on with the next message of each.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from frazil.doors.topics.positions import written
from frazil.doors.topics.rows import joined, texts
from frazil.errors import BufferFull, FrazilError, OffsetGone, RequestError
from frazil.topics.messages import Records
from frazil.topics.reading import PartitionCursor
from frazil.topics.stream import stream

logger = logging.getLogger(__name__)

MOST_STREAMS = 200
MOST_PARTITIONS = 100
"""Of one stream: each event tells of all of them."""
RUN_ROWS = 1024
RUN_BYTES = 1024 * 1024
"""Of messages that a stream reads at a time, in all its partitions together."""
BEAT_SECONDS = 10.0
"""So often a stream without messages says that it is there, or nobody would notice that its reader has gone."""
STALL_SECONDS = 300.0
"""A reader that takes nothing for so long has gone, or may come back."""
RETRY_MS = 1000
"""When a reader comes back after its stream has ended."""

Runs: TypeAlias = AsyncGenerator[Records, None]


class Streams:
    """Those that are open. Belongs to the event loop."""

    def __init__(self, beat_seconds: float = BEAT_SECONDS) -> None:
        self._beat = beat_seconds
        self._open = 0
        self._closing = asyncio.Event()

    def check(self, cursors: Sequence[PartitionCursor]) -> None:
        """Whether one more can be opened."""
        if len(cursors) > MOST_PARTITIONS:
            raise RequestError(
                f"The topic has {len(cursors)} partitions, and a stream has at most {MOST_PARTITIONS}. Read one of "
                f"them with partition=."
            )
        if self._open >= MOST_STREAMS:
            raise BufferFull(f"{MOST_STREAMS} streams are open, which is the most there may be. Try again later.")

    def close(self) -> None:
        """End all streams; their readers come back."""
        self._closing.set()

    async def events(self, cursors: Sequence[PartitionCursor]) -> AsyncGenerator[bytes, None]:
        self._open += 1
        closing = asyncio.create_task(self._closing.wait())
        last = {cursor.partition: cursor.position - 1 for cursor in cursors}
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            most = max(1, RUN_BYTES // len(cursors))
            runs = cast(Runs, stream(cursors, prefetch=1, max_rows=RUN_ROWS, max_bytes=most))
            async with aclosing(runs), aclosing(_with_beats(runs, closing, self._beat)) as coming:
                async for records in coming:
                    if records is None:
                        yield b": \n\n"
                        continue
                    yield await asyncio.to_thread(_events, records, last)
                    last[records.partition] = records.end - 1
        except FrazilError as error:
            yield _failure(error)
        finally:
            self._open -= 1
            closing.cancel()


class EventStream(StreamingResponse):
    """Lets go of what its events come from as soon as nobody reads them.

    Nobody tells when a client vanishes whose connection is full, so one that reads nothing for long is let go.
    """

    media_type = "text/event-stream"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_soon(message: MutableMapping[str, Any]) -> None:
            async with asyncio.timeout(STALL_SECONDS):
                await send(message)

        try:
            async with aclosing(self.body_iterator):  # type: ignore[type-var]
                await super().__call__(scope, receive, send_soon)
        except TimeoutError:
            logger.info("a reader of a stream reads nothing, and is let go", extra={"path": scope["path"]})


async def _with_beats(
    runs: Runs, closing: asyncio.Task[bool], seconds: float
) -> AsyncGenerator[Records | None, None]:
    """None now and then while nothing comes; ends when it is closing."""
    while not closing.done():
        coming = asyncio.ensure_future(anext(runs))
        try:
            while not coming.done():
                await asyncio.wait({coming, closing}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if closing.done():
                    return
                if not coming.done():
                    yield None
            yield coming.result()
        except StopAsyncIteration:
            return
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)


def _events(records: Records, last: Mapping[int, int]) -> bytes:
    others = written((partition, at) for partition, at in last.items() if partition != records.partition)
    offsets = pa.array(range(records.first, records.end), pa.int64()).cast(pa.string())
    begin = f"id: {records.partition}:"
    after = f"{',' if others else ''}{others}\ndata: "
    return joined(pc.binary_join_element_wise(begin, offsets, after, texts(records), "\n\n", ""))


def _failure(error: FrazilError) -> bytes:
    told: dict[str, object] = {"error": str(error)}
    if isinstance(error, OffsetGone):
        told["first_offset"] = error.first_left
    return f"event: problem\ndata: {json.dumps(told, ensure_ascii=False)}\n\n".encode()
