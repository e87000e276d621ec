"""Sends a topic as server-sent events, one for each message, and continues with new messages.

The id of an event is `partition:offset` of its message, followed by the last offsets of the other partitions of the
stream. A client that reconnects with the id of its last event continues with the next message of each partition.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing

import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from frazil.doors.http.message_rows import join_texts, message_texts
from frazil.doors.http.positions import format_positions
from frazil.doors.http.slow_clients import RUN_BYTES, dropping_stalled, with_stall_timeout
from frazil.errors import BufferFull, FrazilError, OffsetGone, RequestError
from frazil.topics.messages import MessageRun
from frazil.topics.read.cursor import PartitionCursor
from frazil.topics.read.memory_budget import MemoryBudget
from frazil.topics.read.round_robin import RoundRobinReader
from frazil.web.error_texts import text_for_client

MOST_STREAMS = 200
MOST_PARTITIONS = 100
"""A stream has at most this many partitions, because the id of each event names all of them."""
RUN_ROWS = 1024
BEAT_SECONDS = 10.0
"""A stream without messages sends a comment this often. Otherwise nobody would notice that its reader has gone."""
RETRY_MS = 1000
"""A reader reconnects this long after its stream has ended."""


class Streams:
    """Counts the open streams. Belongs to the event loop."""

    def __init__(self, beat_seconds: float = BEAT_SECONDS) -> None:
        self._beat = beat_seconds
        self._open = 0
        self._closing = asyncio.Event()

    def check(self, cursors: Sequence[PartitionCursor]) -> None:
        """Raises an error if no more streams can be opened."""
        if len(cursors) > MOST_PARTITIONS:
            raise RequestError(
                f"The topic has {len(cursors)} partitions, and a stream has at most {MOST_PARTITIONS}. Read one of "
                f"them with partition=."
            )
        if self._open >= MOST_STREAMS:
            raise BufferFull(f"{MOST_STREAMS} streams are open, which is the most there may be. Try again later.")

    def close(self) -> None:
        """Ends all streams. Their readers reconnect."""
        self._closing.set()

    async def events(self, cursors: Sequence[PartitionCursor], memory: MemoryBudget) -> AsyncGenerator[bytes, None]:
        self._open += 1
        closing = asyncio.create_task(self._closing.wait())
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            message_events = _message_events(cursors, memory)
            async with (
                aclosing(message_events),
                aclosing(_with_heartbeats(message_events, closing, self._beat)) as coming,
            ):
                async for text in coming:
                    yield text
        except FrazilError as error:
            yield _failure(error)
        finally:
            self._open -= 1
            closing.cancel()


class EventStream(StreamingResponse):
    """Closes its source as soon as nobody reads the events."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], memory: MemoryBudget, headers: Mapping[str, str]) -> None:
        super().__init__(events, headers=headers)
        self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.body_iterator):  # type: ignore[type-var]
            with dropping_stalled(scope):
                await super().__call__(scope, receive, with_stall_timeout(send, self._memory))


async def _message_events(cursors: Sequence[PartitionCursor], memory: MemoryBudget) -> AsyncGenerator[bytes, None]:
    """Yields the events of runs of messages. While they are sent, the messages themselves are not kept."""
    last = {cursor.partition: cursor.position - 1 for cursor in cursors}
    account, turns = memory.account(), RoundRobinReader(cursors)
    try:
        while True:
            most = min(RUN_BYTES, account.allowed)
            records = await turns.next(RUN_ROWS, most)
            async with AsyncExitStack() as room:
                if (size := records.batch.nbytes) > RUN_BYTES:
                    turns.give_back(records)
                    del records
                    await room.enter_async_context(memory.large.room(size))
                    records = await turns.next(RUN_ROWS, most)
                text = await asyncio.to_thread(_events, records, dict(last))
                last[records.partition] = records.end - 1
                del records
                account.add(len(text))
                yield text
                account.add(-len(text))
    finally:
        account.close()
        await turns.close()


async def _with_heartbeats(
    texts: AsyncGenerator[bytes, None], closing: asyncio.Task[bool], seconds: float
) -> AsyncGenerator[bytes, None]:
    """Adds a comment now and then while nothing comes, and ends when the server closes."""
    while not closing.done():
        coming = asyncio.ensure_future(anext(texts))
        try:
            while not coming.done():
                await asyncio.wait({coming, closing}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if closing.done():
                    return
                if not coming.done():
                    yield b": \n\n"
            yield coming.result()
        except StopAsyncIteration:
            return
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)


def _events(records: MessageRun, last: Mapping[int, int]) -> bytes:
    others = format_positions((partition, at) for partition, at in last.items() if partition != records.partition)
    offsets = pa.array(range(records.first, records.end), pa.int64()).cast(pa.string())
    begin = f"id: {records.partition}:"
    after = f"{',' if others else ''}{others}\ndata: "
    return join_texts(pc.binary_join_element_wise(begin, offsets, after, message_texts(records), "\n\n", ""))


def _failure(error: FrazilError) -> bytes:
    content: dict[str, object] = {"error": text_for_client(error)}
    if isinstance(error, OffsetGone):
        content["first_offset"] = error.first_left
    return f"event: problem\ndata: {json.dumps(content, ensure_ascii=False)}\n\n".encode()
