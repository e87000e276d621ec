"""Keeps the processes that answer queries, and lets only so many run at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from frazil.config.model import Config
from frazil.errors import QueriesBusy, ShutdownError
from frazil.query.sql.protocol import Question
from frazil.query.sql.worker import TailsOf, Worker

T = TypeVar("T")

IDLE_SECONDS = 120.0
"""A process that is idle for this long ends and frees its 120 MiB. The next query starts another."""
_LATER_SECONDS = 0.1


class WorkerPool:
    """Belongs to one event loop. It starts processes when they are needed, and reuses the one used last."""

    def __init__(self, config: Config, tails_of: TailsOf) -> None:
        self._limits = config.sql
        self._free = [Worker(config, tails_of) for _ in range(config.sql.max_concurrent)]
        self._all = tuple(self._free)
        self._turns = asyncio.Semaphore(config.sql.max_concurrent)
        self._threads = ThreadPoolExecutor(config.sql.max_concurrent, thread_name_prefix="frazil-sql")
        self._closed = False
        self._warming: asyncio.Task[object] | None = None
        self._ending_idle: asyncio.TimerHandle | None = None
        self.waiting = 0

    @property
    def running(self) -> int:
        return len(self._all) - len(self._free)

    def warm(self) -> asyncio.Task[object]:
        """Starts one process in advance, because loading takes a second or two."""
        self._warming = asyncio.create_task(self._use(Worker.start))
        return self._warming

    async def ask(self, question: Question) -> bytes:
        """Returns the answer. Raises `QueriesBusy` when no process is free within the query's time limit."""
        if self._warming is not None:
            # Waiting for the first process does not count as the query's time.
            await asyncio.wait([self._warming])
        return await self._use(lambda worker: worker.ask(question))

    async def _use(self, work: Callable[[Worker], T]) -> T:
        await self._wait_turn()
        try:
            if self._closed:
                raise ShutdownError("Frazil is stopping: it answers no more queries.")
            worker = self._free.pop()
            working = asyncio.get_running_loop().run_in_executor(self._threads, work, worker)
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                worker.kill()
                await asyncio.wait([working])
                raise
            finally:
                self._free.append(worker)
                worker.used_at = time.monotonic()
                self._end_idle_later(IDLE_SECONDS)
        finally:
            self._turns.release()

    def _end_idle_later(self, seconds: float) -> None:
        if self._ending_idle is None and not self._closed:
            self._ending_idle = asyncio.get_running_loop().call_later(seconds, self._end_idle)

    def _end_idle(self) -> None:
        """Ends processes that have been idle for long."""
        self._ending_idle = None
        now = time.monotonic()
        for worker in self._free:
            if now - worker.used_at >= IDLE_SECONDS:
                worker.close()
        used = [worker.used_at for worker in self._free if worker.running]
        if used:
            self._end_idle_later(max(0.0, min(used) + IDLE_SECONDS - now) + _LATER_SECONDS)

    async def close(self) -> None:
        self._closed = True
        if self._ending_idle is not None:
            self._ending_idle.cancel()
        for worker in self._all:
            worker.kill()
        await asyncio.to_thread(self._threads.shutdown)
        for worker in self._all:
            worker.close()

    async def _wait_turn(self) -> None:
        started = time.monotonic()
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.timeout_seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise QueriesBusy(
                f"{len(self._all)} queries are running (sql.max_concurrent), and none ended within "
                f"{time.monotonic() - started:.0f} seconds. Ask again later."
            ) from None
        finally:
            self.waiting -= 1
