"""Requests of one kind on their way into the log.

Those that wait are decoded together, so that small requests cost little, and appended each by itself, so that each is
stored once and answered for itself. Whoever sends again what was stored is told that it is, and nothing more happens.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from frazil.config.section import MIB
from frazil.config.telemetry import TelemetryConfig
from frazil.doors.telemetry.bodies import expand
from frazil.doors.telemetry.kinds import RequestKind
from frazil.doors.telemetry.limits import Limits
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.writers import Writers
from frazil.errors import FrazilError, RequestError
from frazil.log.pieces import pieces
from frazil.log.positions import Origin
from frazil.log.world import Clock
from frazil.telemetry.messages import check, decode
from frazil.telemetry.rows import Arrival, Rejected

logger = logging.getLogger(__name__)

GROUP_BYTES = 16 * MIB
"""Decoded at a time, once they are without compression."""
WORKERS = 2
"""Groups that are decoded at once: one thread may wait for Python while another is in a library."""

HASH_BYTES = 16


class Request(NamedTuple):
    tenant: str
    body: bytes
    encoding: str = ""
    json: bool = False


class Accepted(NamedTuple):
    rejected: int = 0
    """Records that will never be accepted."""
    reason: str = ""


@dataclass
class _Waiting:
    request: Request
    answer: asyncio.Future[Accepted]
    problem: FrazilError | None = None
    rejected: Rejected | None = None
    pieces: Sequence[tuple[pa.RecordBatch, Origin | None]] = ()

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def succeed(self) -> None:
        if not self.answer.done():
            self.answer.set_result(Accepted(*self.rejected) if self.rejected else Accepted())


class Intake:
    """Belongs to the event loop."""

    def __init__(
        self,
        kind: RequestKind,
        writers: Writers,
        config: TelemetryConfig,
        limits: Limits,
        metrics: TelemetryMetrics,
        clock: Clock,
        most_append: int,
    ) -> None:
        self.kind = kind
        self._writers = writers
        self._config = config
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._most = config.max_body_mb * MIB
        self._most_append = most_append
        self._waiting: deque[_Waiting] = deque()
        self._workers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, request: Request) -> Accepted:
        """Return when the records are stored. Raises `RequestError` for what is wrong with the request, and any other
        `FrazilError` when it is to come again."""
        await self._writers.of(self.kind)
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._workers < WORKERS:
            self._workers += 1
            self._run(self._work())
        return await waiting.answer

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while self._waiting:
            group = list(self._next_group())
            try:
                taken = await asyncio.to_thread(self._prepare, group)
            except Exception as error:
                logger.exception("requests could not be decoded")
                for each in group:
                    each.fail(FrazilError(f"decoding failed: {type(error).__name__}: {error}"))
                continue
            self._waiting.extendleft(reversed(group[taken:]))
            for each in group[:taken]:
                if each.problem:
                    each.fail(each.problem)
                else:
                    self._run(self._append(each))
        # No `await` since the queue was seen empty: who comes now starts a worker.
        self._workers -= 1

    def _next_group(self) -> Iterator[_Waiting]:
        size = 0
        while self._waiting and size < GROUP_BYTES:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                size += len(waiting.request.body)
                yield waiting

    async def _append(self, waiting: _Waiting) -> None:
        try:
            writer = await self._writers.of(self.kind)
            for batch, origin in waiting.pieces:
                ack = await writer.append_async(batch, origin)
                self._metrics.stored(self.kind.topic, waiting.request.tenant, batch, ack)
        except BaseException as error:  # noqa: BLE001 - whoever waits must be told
            waiting.fail(error)
        else:
            waiting.succeed()

    # --- in a thread ---------------------------------------------------------------------------------------

    def _prepare(self, group: list[_Waiting]) -> int:
        """Give requests their pieces, or their problem; to how many of them, in the order of the group."""
        good: list[_Waiting] = []
        bodies: list[bytes] = []
        taken = size = 0
        while taken < len(group) and size < GROUP_BYTES:
            waiting = group[taken]
            taken += 1
            try:
                bodies.append(self._read(waiting.request))
            except FrazilError as error:
                waiting.problem = error
                continue
            good.append(waiting)
            size += len(bodies[-1])
        try:
            self._convert(good, bodies)
        except Exception:
            logger.exception("requests could not be decoded together")
            self._convert_each(good, bodies)
        return taken

    def _convert_each(self, group: list[_Waiting], bodies: list[bytes]) -> None:
        """One by one, so that the one that cannot be decoded is alone with it."""
        for waiting, body in zip(group, bodies, strict=True):
            try:
                self._convert([waiting], [body])
            except Exception as error:  # noqa: BLE001 - whatever it is, it would be the same the next time
                waiting.problem = RequestError(f"The request cannot be decoded: {type(error).__name__}: {error}.")

    def _read(self, request: Request) -> bytes:
        body = expand(request.body, request.encoding, self._most)
        self._limits.spend(request.tenant, len(body))
        if request.json:
            return self.kind.from_json(body)
        check(self.kind.message, body)
        return body

    def _convert(self, group: list[_Waiting], bodies: list[bytes]) -> None:
        if not group:
            return
        arrival = Arrival(pa.array([each.request.tenant for each in group]), self._clock.now_ms() * 10**6)
        rows = self.kind.to_rows(decode(self.kind.message, bodies), arrival)
        self._metrics.invalid_ids.labels(self.kind.topic).inc(rows.invalid_ids)
        rows = self._limits.without_excess(rows, [each.request.tenant for each in group])
        borders = np.searchsorted(rows.requests.to_numpy(), np.arange(len(group) + 1)).tolist()
        for number, (waiting, body) in enumerate(zip(group, bodies, strict=True)):
            start, end = borders[number : number + 2]
            waiting.rejected = rows.rejected.get(number)
            if start < end:
                batches = list(pieces(rows.batch.slice(start, end - start), self._most_append))
                origins = self._origins(waiting.request.tenant, body, len(batches), number in rows.timeless)
                waiting.pieces = list(zip(batches, origins, strict=True))

    def _origins(self, tenant: str, body: bytes, count: int, timeless: bool) -> list[Origin | None]:
        """By which the pieces are recognised when they come again."""
        if self._config.deduplicate == "never":
            return [None] * count
        # What was stored of a request in part must not be stored again, whatever it has in it.
        if self._config.deduplicate == "timed" and timeless and count == 1:
            return [None]
        begin = f"{tenant}\0{self.kind.message.DESCRIPTOR.full_name}\0"
        digest = hashlib.blake2b(begin.encode(), digest_size=HASH_BYTES)
        digest.update(body)
        return [Origin(request=digest.digest() + number.to_bytes(2)) for number in range(count)]
