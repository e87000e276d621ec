"""Reads what is posted to a topic, within limits: one message, JSON lines, or an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from starlette.requests import Request

from frazil.errors import BodyTooLarge, BodyUnsupported, InvalidMessage
from frazil.topics.messages import MESSAGE, conform_messages
from frazil.web.admission import Admission, Ticket
from frazil.web.asgi import AsgiBody
from frazil.web.bodies import read_body

IN_FLIGHT = 4
"""All bodies being processed have at most this many times the size of the largest one."""

NDJSON = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")


class BodyMemory:
    """Limits the memory of all bodies being processed. Belongs to the event loop."""

    def __init__(self, largest_body: int) -> None:
        self.largest_body = largest_body
        setting = f"{IN_FLIGHT} times `log.max_append_mb`"
        self._admission = Admission(IN_FLIGHT * largest_body, setting)

    @property
    def nbytes(self) -> int:
        """Returns the bytes that are being processed now."""
        return self._admission.nbytes

    @contextmanager
    def reading(self, request: Request) -> Iterator[Body]:
        """Counts the body of one request from its first byte to its answer."""
        ticket = self._admission.ticket()
        try:
            yield Body(ticket, self.largest_body, request)
        finally:
            ticket.give_back()


class Body:
    def __init__(self, ticket: Ticket, most: int, request: Request) -> None:
        self._ticket = ticket
        self._most = most
        self._request = request

    async def read(self) -> bytes:
        """Reads the whole body. A body over the limit is refused before all of it has arrived."""
        if encoding := self._request.headers.get("content-encoding", "").strip():
            raise BodyUnsupported(f"The body is encoded with {encoding[:40]!r}. Send it as it is.")
        incoming = AsgiBody(self._request.scope, self._request.receive)
        self._check(incoming.length or 0)
        return await read_body(incoming, self._count)

    def _count(self, part: bytes) -> None:
        self._check(self._ticket.nbytes + len(part))
        self._ticket.add(len(part))

    def _check(self, nbytes: int) -> None:
        if nbytes > self._most:
            raise BodyTooLarge(
                f"The body is over the limit of {self._most:,} bytes (`log.max_append_mb`). Send fewer messages at a "
                f"time."
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
