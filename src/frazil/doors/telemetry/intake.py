"""Appends requests of one kind to the log.

Waiting requests are converted to rows together (`conversion`) and stored together, and each is answered on its own. A
client that sends again what is stored gets the same answer, and nothing more happens.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from frazil.config.sections.section import MIB
from frazil.doors.telemetry.amplification import max_messages
from frazil.doors.telemetry.conversion import (
    GROUP_BYTES,
    AppendBatch,
    PlainRequest,
    RequestConverter,
    RequestRows,
    TelemetryRequest,
)
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.request_kind import RequestKind
from frazil.doors.telemetry.unstored_rows import UnstoredRows
from frazil.doors.telemetry.writers import Writers
from frazil.errors import FrazilError, WriteFailed
from frazil.formats.telemetry.rows import Rejected
from frazil.log.forms import RawAppends
from frazil.log.writer.batch_sizes import split_batch
from frazil.log.writer.group import Ack, BatchAppend
from frazil.log.writer.writer import PartitionWriter
from frazil.native import faults_as_errors

logger = logging.getLogger(__name__)

WORKERS = max(1, (os.cpu_count() or 1) // 2)
"""The number of groups that are converted at once. The other processors write and seal; and fewer groups are larger,
so that each request costs less."""
SMALL_BYTES, SMALL_GROUP_BYTES, SMALL_GROUP = 16 * 1024, 256 * 1024, 128
"""The most bytes of a small request, of a group of them, and the most requests in such a group. The event loop itself
converts these: handing them to a thread and back takes longer, and the thread would wait for the loop whenever it
runs Python."""
SMALL_WORK, SMALL_GROUP_WORK = 2 * MIB, 96 * MIB
"""The most bytes that a small request and a group of them could become, if each message were a record that repeats
all the rest of the request. Ten log records of 360 bytes could be 1 MiB."""
ENOUGH = 64
"""A group of so many requests does not wait for more."""
LINGER_SECONDS, LINGERS = 0.001, 5
"""This is how long a group that is smaller than those before waits for more requests, and how often it does so if
more come. Clients that were answered together are likely to be back together. One small group does not mean that they
are gone, so the number that is waited for falls by an eighth with each."""


class NotTaken(WriteFailed):
    """Raised when it is not known in time whether the object store has the records."""

    public = True


class Accepted(NamedTuple):
    rejected: int = 0
    """The number of records that will never be accepted."""
    reason: str = ""
    tally: object = None
    """The counts that are part of the answer (`RequestKind.tally`)."""


@dataclass
class _WaitingRequest:
    request: TelemetryRequest
    answer: asyncio.Future[Accepted]
    plain: PlainRequest | None = None
    """The request in the form in which it can be stored as it came, if it can."""
    rejected: Rejected | None = None
    tally: object = None
    left: int = 0
    """The number of its parts that are not stored yet."""

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def succeed(self) -> None:
        if not self.answer.done():
            self.answer.set_result(Accepted(*(self.rejected or (0, "")), self.tally))

    def settle(self, outcome: Ack | FrazilError) -> None:
        """Handles that a part was stored, or was not."""
        self.left -= 1
        if isinstance(outcome, FrazilError):
            self.fail(outcome.again())
        elif not self.left:
            self.succeed()


class Intake:
    """Takes in the requests of one kind. It belongs to the event loop."""

    def __init__(
        self,
        kind: RequestKind,
        converter: RequestConverter,
        writers: Writers,
        metrics: TelemetryMetrics,
        unstored: UnstoredRows,
    ) -> None:
        self.kind = kind
        self._converter = converter
        self._writers = writers
        self._metrics = metrics
        self._unstored = unstored
        self._waiting: deque[_WaitingRequest] = deque()
        self._enough_came: asyncio.Future[None] | None = None
        """It is set while a worker waits for as many requests as the groups before had."""
        self._wanted = 1
        self._workers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, request: TelemetryRequest) -> Accepted:
        """Returns when the records are stored. Raises `RequestError` for what is wrong with the request, and any
        other `FrazilError` if the client should send it again."""
        if not self._writers.has(self.kind):
            await self._writers.of(self.kind)
        # This is done now and not with the group: an early request is checked while others are on their way.
        plain = self._converter.plain_request(request)
        if plain is None:
            request = self._converter.with_hash(request)
        waiting = _WaitingRequest(request, asyncio.get_running_loop().create_future(), plain)
        self._waiting.append(waiting)
        if self._enough_came is not None and len(self._waiting) >= self._wanted:
            _wake(self._enough_came)
        if self._workers < WORKERS and self._enough_came is None:
            self._workers += 1
            self._run(self._work())
        try:
            return await waiting.answer
        except asyncio.CancelledError:
            # It is skipped when its turn comes; until then it must not hold the memory that its ticket gives back
            # now.
            waiting.request, waiting.plain = request._replace(body=b""), None
            raise

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._unstored.wait_for_room()
                if len(self._waiting) < self._wanted and self._enough_came is None:
                    await self._linger()
                group = list(self._next_group())
                small = self._is_small(group)
                self._wanted = max(1, min(len(group), ENOUGH), self._wanted * 7 // 8) if small else 1
                try:
                    with faults_as_errors():
                        await self._convert(group, small)
                except BaseException as error:
                    logger.exception("requests could not be decoded")
                    # Requests that are being stored are not failed.
                    for each in (each for each in group if not each.left):
                        each.fail(FrazilError("The request could not be decoded now. The server's log says why."))
                    if not isinstance(error, Exception):
                        raise
        finally:
            # There was no `await` since the queue was seen empty, so the next request starts a worker.
            self._workers -= 1

    def _is_small(self, group: list[_WaitingRequest]) -> bool:
        if len(group) > SMALL_GROUP:
            return False
        nbytes = 0
        for each in group:
            request = each.request
            if len(request.body) > SMALL_BYTES or not request.is_bare:
                return False
            nbytes += len(request.body)
        return nbytes <= SMALL_GROUP_BYTES

    def _is_light(self, group: list[_WaitingRequest]) -> bool:
        """Returns whether only few bytes of small requests could begin a record."""
        bodies = [each.request.body for each in group]
        works = [len(body) * max_messages(self.kind.message, body) for body in bodies]
        return max(works) <= SMALL_WORK and sum(works) <= SMALL_GROUP_WORK

    async def _linger(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            for _ in range(LINGERS):
                before = len(self._waiting)
                self._enough_came = loop.create_future()
                # A timeout of `asyncio` would cost as much as a request.
                timer = loop.call_later(LINGER_SECONDS, _wake, self._enough_came)
                await self._enough_came
                timer.cancel()
                if not before < len(self._waiting) < self._wanted:
                    return
        finally:
            self._enough_came = None

    def _next_group(self) -> Iterator[_WaitingRequest]:
        size = 0
        while self._waiting and size < GROUP_BYTES:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                size += len(waiting.request.body)
                yield waiting

    async def _convert(self, group: list[_WaitingRequest], small: bool) -> None:
        plain = [each for each in group if each.plain]
        if plain:
            found = {number: each.plain for number, each in enumerate(plain) if each.plain}
            self._settle(plain, self._converter.plain_appends(found))
            group = [each for each in group if not each.plain]
        if group:
            requests = [each.request for each in group]
            if small and self._is_light(group):
                done = self._converter.convert(requests)
            else:
                done = await asyncio.to_thread(self._converter.convert, requests)
            self._waiting.extendleft(reversed(group[done.taken :]))
            for number, problem in done.problems.items():
                group[number].fail(problem)
            for number, rejected in done.rejected.items():
                group[number].rejected = rejected
                self._metrics.refused(self.kind.topic, group[number].request.tenant, rejected.records)
            for number, tally in done.tallies.items():
                group[number].tally = tally
            self._settle(group[: done.taken], done.appends)

    def _settle(self, group: list[_WaitingRequest], appends: list[AppendBatch]) -> None:
        """Stores what was converted, and answers requests of which nothing is left to store."""
        for batch in appends:
            for request in batch.requests:
                group[request.number].left += 1
        for waiting in group:
            if not waiting.left:
                waiting.succeed()
        for batch in appends:
            self._unstored.change(batch.nbytes)
            self._run(self._store(batch, [group[request.number] for request in batch.requests]))

    async def _store(self, batch: AppendBatch, owners: list[_WaitingRequest]) -> None:
        try:
            with faults_as_errors():
                writer = await self._writers.of(self.kind)
                outcomes = await self._stored(writer, batch)
        except BaseException as error:  # noqa: BLE001 - whoever waits must be told
            for waiting in owners:
                waiting.fail(error)
            return
        finally:
            self._unstored.change(-batch.nbytes)
        settled = list(zip(owners, outcomes, strict=True))
        acks = ((waiting.request.tenant, outcome) for waiting, outcome in settled if isinstance(outcome, Ack))
        self._metrics.stored(self.kind.topic, acks, batch.row_bytes)
        for waiting, outcome in settled:
            waiting.settle(outcome)

    async def _stored(self, writer: PartitionWriter, batch: AppendBatch) -> list[Ack | FrazilError]:
        """Returns the outcome of each request."""
        if batch.nbytes > writer.options.max_append_bytes and isinstance(batch.content, pa.RecordBatch):
            (request,) = batch.requests
            return [await _store_in_order(writer, batch.content, request, 0)]
        parts = [request.part(0, request.rows) for request in batch.requests]
        outcomes = await _append(writer, batch.content, parts)
        if any(_is_beginning(outcome, request) for outcome, request in zip(outcomes, batch.requests, strict=True)):
            await self._complete(writer, batch, outcomes)
        return outcomes

    async def _complete(self, writer: PartitionWriter, batch: AppendBatch, outcomes: list[Ack | FrazilError]) -> None:
        """Stores the rest of requests whose beginning an earlier try stored."""
        content = batch.content
        rows = (
            await asyncio.to_thread(self._converter.rows_of, content) if isinstance(content, RawAppends) else content
        )
        first = 0
        for place, request in enumerate(batch.requests):
            outcome = outcomes[place]
            if isinstance(outcome, Ack) and _is_beginning(outcome, request):
                own = rows.slice(first, request.rows)
                outcomes[place] = await _store_in_order(writer, own, request, outcome.rows)
            first += request.rows


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


async def _store_in_order(
    writer: PartitionWriter, rows: pa.RecordBatch, request: RequestRows, first: int
) -> Ack | FrazilError:
    """Stores the rows of a request from `first` on, one append after the other, so that what is stored is always its
    beginning."""
    outcome: Ack | FrazilError
    while True:
        piece = next(split_batch(rows.slice(first), writer.options.max_append_bytes))
        (outcome,) = await _append(writer, piece, [request.part(first, piece.num_rows)])
        if isinstance(outcome, FrazilError):
            return outcome
        first += outcome.rows
        if first >= request.rows:
            return outcome._replace(rows=request.rows)


def _is_beginning(outcome: Ack | FrazilError, request: RequestRows) -> bool:
    """Returns whether only the first rows of a request are stored."""
    return isinstance(outcome, Ack) and outcome.rows < request.rows


async def _append(
    writer: PartitionWriter, content: pa.RecordBatch | RawAppends, parts: list[BatchAppend]
) -> list[Ack | FrazilError]:
    """Appends, and stops waiting after a while if the object store has to acknowledge and does not."""
    options = writer.options
    storing = (
        writer.append_raw(content, parts) if isinstance(content, RawAppends) else writer.append_many(content, parts)
    )
    if options.ack != "object":
        return await storing
    patience = options.append_timeout + options.seal_seconds
    try:
        async with asyncio.timeout(patience):
            return await storing
    except TimeoutError as error:
        raise NotTaken(
            f"The object store has not taken the records in {patience:g} s (`log.append_timeout_seconds`). Send them "
            f"again: it may still take them."
        ) from error
