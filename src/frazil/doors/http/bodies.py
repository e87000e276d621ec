"""Reads what is posted to a topic, within limits: one message, JSON lines, or an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from starlette.requests import Request

from frazil.errors import BodyTooLarge, BodyUnsupported, BufferFull, InvalidMessage
from frazil.topics.messages import MESSAGE, conform_messages
from frazil.web.asgi import AsgiBody
from frazil.web.bodies import read_body

IN_FLIGHT = 4
"""All bodies being processed have at most this many times the size of the largest one."""

NDJSON = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")


class BodyMemory:
    """Limits the memory of all bodies being processed. Belongs to the event loop."""

    def __init__(self, largest_body: int) -> None:
        self.largest_body = largest_body
        self._used = 0

    @contextmanager
    def reading(self, request: Request) -> Iterator[Body]:
        """Counts the body of one request from its first byte to its answer."""
        body = Body(self, request)
        try:
            yield body
        finally:
            self._used -= body.nbytes

    def take(self, nbytes: int, own: int) -> None:
        most = IN_FLIGHT * self.largest_body
        # A request that is alone is always admitted, because its size has its own limit.
        if self._used > own and self._used + nbytes > most:
            raise BufferFull(f"More than {most:,} bytes of messages are being worked on. Send it again later.")
        self._used += nbytes


class Body:
    def __init__(self, room: BodyMemory, request: Request) -> None:
        self._room = room
        self._request = request
        self.nbytes = 0

    async def read(self) -> bytes:
        """Reads the whole body. A body over the limit is refused before all of it has arrived."""
        if encoding := self._request.headers.get("content-encoding", "").strip():
            raise BodyUnsupported(f"The body is encoded with {encoding[:40]!r}. Send it as it is.")
        incoming = AsgiBody(self._request.scope, self._request.receive)
        self._check(incoming.length or 0)
        return await read_body(incoming, self._count)

    def _count(self, part: bytes) -> None:
        self._check(self.nbytes + len(part))
        self._room.take(len(part), self.nbytes)
        self.nbytes += len(part)

    def _check(self, nbytes: int) -> None:
        most = self._room.largest_body
        if nbytes > most:
            raise BodyTooLarge(
                f"The body is over the limit of {most:,} bytes (`log.max_append_mb`). Send fewer messages at a time."
            )


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def complete_messages(batch: pa.RecordBatch, now_ms: int, key: str | None) -> pa.RecordBatch:
    """Completes the rows of a topic: messages without a time get `now_ms`, and those without a key get `key`."""
    batch = conform_messages(batch, now_ms)
    if key is not None:
        place = MESSAGE.get_field_index("routing_key")
        batch = batch.set_column(place, MESSAGE.field(place), batch.column(place).fill_null(key))
    for name in ("producer_id", "sequence"):
        if batch.column(name).null_count < len(batch):
            raise InvalidMessage(f"Column {name!r} is not for messages to have: name the producer in the request.")
    if missing := batch.column("payload").null_count:
        raise InvalidMessage(f"{missing} of {len(batch)} messages have no payload. It may be empty, but not null.")
    return batch
