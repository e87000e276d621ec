"""Answers queries in processes of their own: few at a time, in turns that are fair, within limits."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress

from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.engine.exchange import Exchange, LostToNeighbour
from frazil.engine.interface import QueryRequest
from frazil.engine.limits import Limit, QueryLimits, Solo, query_limits, tenant_turns
from frazil.engine.messages import Question
from frazil.engine.metrics import QueryMetrics
from frazil.engine.process_pool import ProcessPool
from frazil.engine.query_process import Desk
from frazil.engine.tail_transfer import TailsOf
from frazil.engine.turns import Turns
from frazil.errors import QueriesBusy, ShutdownError


class _Waiting:
    """Is a query that waits for its turn."""

    def __init__(self, tenant: tuple[str, ...], port: str, counted: Mapping[Hashable, Limit], alone: bool) -> None:
        self.tenant = tenant
        self.affinity = (port, tenant)
        self.counted = counted
        """So many queries that count under the same key may run at a time."""
        self.alone = alone
        self.since = time.monotonic()
        self.desk: asyncio.Future[Desk] = asyncio.get_running_loop().create_future()


class QueryRoom:
    """Belongs to one event loop.

    `tails_of` returns tails that only this process has in memory; it is called in a thread. `solo` names the answers
    whose queries have a process to themselves, and `warm` functions that prepare a process for its first query.
    """

    def __init__(
        self,
        config: Config,
        tails_of: TailsOf,
        metrics: CollectorRegistry,
        *,
        solo: Mapping[str, Solo] | None = None,
        warm: Sequence[str] = (),
    ) -> None:
        self._config = config
        self._solo = solo or {}
        self._turns: Turns[_Waiting] = Turns()
        self._running: Counter[Hashable] = Counter()
        self._exchanges: set[Exchange] = set()
        self._closed = False
        self._processes = ProcessPool(config, warm, tails_of, self._dispatch, self._no_process)
        self._metrics = QueryMetrics(
            metrics,
            config.query.slow_seconds,
            running=lambda: len(self._exchanges),
            waiting=lambda: len(self._turns),
            processes=lambda: len(self._processes),
        )

    @property
    def processes(self) -> ProcessPool:
        return self._processes

    @property
    def is_idle(self) -> bool:
        """Returns whether no query runs or waits."""
        return not self._exchanges and not len(self._turns)

    async def warm(self) -> None:
        """Starts some processes in advance, because loading takes a second or two."""
        await self._processes.warm()

    async def ask(self, answer: str, request: QueryRequest) -> Exchange:
        """Has a query answered by a function, `package.module:function`, in another process.

        Returns when status and headers are there. The caller reads the pieces of the body, and calls `aclose` in the
        end, or when nobody wants the answer any more. Raises what the query failed with.
        """
        started = time.monotonic()
        failure: BaseException | None = None
        exchange: Exchange | None = None
        try:
            try:
                exchange = await self._ask(answer, request, alone=answer in self._solo, since=started)
            except LostToNeighbour:
                exchange = await self._ask(answer, request, alone=True, since=started)
        except BaseException as error:
            failure = error
            raise
        finally:
            if exchange is None:
                self._metrics.refused(request, failure)
        return exchange

    async def close(self) -> None:
        """Ends all processes. Queries that run or wait get an error."""
        self._closed = True
        for waiting in list(self._turns):
            self._refuse(waiting, _stopping())
        for exchange in self._exchanges:
            exchange.stopping = True
        await self._processes.close()

    async def _ask(self, answer: str, request: QueryRequest, *, alone: bool, since: float) -> Exchange:
        solo = self._solo.get(answer)
        limits = solo.limits if solo else query_limits(self._config, request.tenants)
        waiting = _Waiting(request.tenants, request.port, self._counted(answer, request, solo), alone)
        desk = await self._wait_turn(waiting, limits)
        queue_seconds = time.monotonic() - since
        question = Question(answer, request, limits, queue_seconds)

        def ended(exchange: Exchange) -> None:
            self._free(desk, waiting)
            self._exchanges.discard(exchange)
            self._metrics.ended(exchange, queue_seconds, time.monotonic() - since)
            self._dispatch()

        exchange = Exchange(desk, question, ended)
        self._mark_shared(exchange, desk)
        self._exchanges.add(exchange)
        try:
            await exchange.begin()
        except BaseException:
            exchange.abandon()
            raise
        return exchange

    def _mark_shared(self, exchange: Exchange, desk: Desk) -> None:
        neighbours = [each for each in self._exchanges if each.process is desk.process]
        if neighbours:
            exchange.shared = True
            for each in neighbours:
                each.shared = True

    def _counted(self, answer: str, request: QueryRequest, solo: Solo | None) -> dict[Hashable, Limit]:
        counted: dict[Hashable, Limit] = {
            ("tenant", request.tenants): tenant_turns(self._config, request.tenants).max_concurrent
        }
        if solo is not None:
            counted["answer", answer] = solo.max_concurrent
        return counted

    async def _wait_turn(self, waiting: _Waiting, limits: QueryLimits) -> Desk:
        if self._closed:
            raise _stopping()
        self._check_queue(waiting)
        self._turns.add(waiting.tenant, waiting)
        self._dispatch()
        try:
            while True:
                done, _ = await asyncio.wait([waiting.desk], timeout=limits.timeout_seconds.value)
                if done:
                    return waiting.desk.result()
                # Waiting for the first process does not count.
                if len(self._processes):
                    self._turns.remove(waiting.tenant, waiting)
                    raise self._busy(waiting, limits)
        except asyncio.CancelledError:
            if not waiting.desk.done():
                self._turns.remove(waiting.tenant, waiting)
            elif waiting.desk.exception() is None:
                self._free(waiting.desk.result(), waiting)
                self._dispatch()
            raise

    def _check_queue(self, waiting: _Waiting) -> None:
        limit = tenant_turns(self._config, waiting.tenant).max_queue
        if self._turns.waiting(waiting.tenant) >= limit.value:
            raise QueriesBusy(
                f"{limit.value:,.0f} queries wait for their turn already ({limit.setting}). Ask again later."
            )

    def _busy(self, waiting: _Waiting, limits: QueryLimits) -> QueriesBusy:
        full = [limit for key, limit in waiting.counted.items() if self._running[key] >= limit.value]
        config = self._config.query
        limit = min(full, default=Limit(config.processes * config.threads, "query.processes, query.threads"))
        return QueriesBusy(
            f"{limit.value:,.0f} queries are running ({limit.setting}), and none ended within "
            f"{limits.timeout_seconds.value:g} seconds. Ask again later."
        )

    def _may_run(self, waiting: _Waiting) -> bool:
        return all(self._running[key] < limit.value for key, limit in waiting.counted.items())

    def _dispatch(self) -> None:
        """Gives desks to those whose turn it is."""
        while not self._closed and (waiting := self._turns.next(self._may_run)) is not None:
            desk = self._processes.free_desk(waiting.affinity, waiting.alone)
            if desk is None:
                # Those behind it wait too, so that it is not overtaken for ever.
                self._processes.grow(time.monotonic() - waiting.since)
                return
            self._turns.take(waiting.tenant, waiting)
            self._running.update(waiting.counted.keys())
            self._processes.occupy(desk, waiting.affinity, waiting.alone)
            waiting.desk.set_result(desk)

    def _free(self, desk: Desk, waiting: _Waiting) -> None:
        self._running.subtract(waiting.counted.keys())
        self._running += Counter()
        self._processes.release(desk)

    def _no_process(self, error: BaseException) -> None:
        """Tells those who wait that there is no process, and that none can be started."""
        for waiting in list(self._turns):
            self._refuse(waiting, error)

    def _refuse(self, waiting: _Waiting, error: BaseException) -> None:
        self._turns.remove(waiting.tenant, waiting)
        with suppress(asyncio.InvalidStateError):
            waiting.desk.set_exception(error)


def _stopping() -> ShutdownError:
    return ShutdownError("Frazil is stopping: it answers no more queries.")
