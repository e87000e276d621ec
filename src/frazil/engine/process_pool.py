"""Keeps the query processes: starts them when queries wait, and ends those that nobody needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from frazil.config.model import Config
from frazil.engine.query_process import Desk, QueryProcess
from frazil.engine.tail_transfer import TailsOf

PATIENCE_SECONDS = 0.3
"""A query must have waited for this long before another process is started for it: most queries are quicker than the
start of a process, and its caches are empty."""
_LATER_SECONDS = 0.1

Affinity = tuple[object, ...]


class ProcessPool:
    """Calls `on_change` when a process is ready or gone, and `on_failure` when none can be started."""

    def __init__(
        self,
        config: Config,
        warm: Sequence[str],
        tails_of: TailsOf,
        on_change: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._config = config
        self._warm = warm
        self._tails_of = tails_of
        self._on_change = on_change
        self._on_failure = on_failure
        self._processes: list[QueryProcess] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._growing: asyncio.TimerHandle | None = None
        self._idle_check: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._processes)

    async def warm(self) -> None:
        """Starts some processes in advance. Raises why that does not work."""
        for _ in range(self._config.query.warm_processes - len(self._processes) - len(self._starting)):
            self._start()
        await asyncio.gather(*self._starting)

    def free_desk(self, affinity: Affinity, alone: bool) -> Desk | None:
        """Returns a desk where nobody is, or None. With `alone` the whole process is free.

        Processes that were used for the same tenants or the same language come first: their caches have what the
        query needs.
        """
        able = [each for each in self._processes if each.running and _is_free(each, alone)]
        best = max(able, key=lambda process: _likeness(process, affinity), default=None)
        return next(desk for desk in best.desks if not desk.busy) if best is not None else None

    def occupy(self, desk: Desk, affinity: Affinity, alone: bool) -> None:
        desk.busy = True
        desk.process.taken = alone
        desk.process.used_for = affinity

    def release(self, desk: Desk) -> None:
        desk.busy = False
        desk.process.taken = False
        desk.process.used_at = time.monotonic()
        self._end_idle_later(self._config.query.idle_seconds)

    def grow(self, waited: float) -> None:
        """Starts another process if there may be one more, and the query in front has waited for long enough."""
        number = len(self._processes) + len(self._starting)
        if self._closed or self._starting or number >= self._config.query.processes:
            return
        if not number or waited >= PATIENCE_SECONDS:
            self._start()
        elif self._growing is None:
            self._growing = asyncio.get_running_loop().call_later(PATIENCE_SECONDS - waited, self._look_again)

    async def close(self) -> None:
        self._closed = True
        for timer in (self._growing, self._idle_check):
            if timer is not None:
                timer.cancel()
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(process.close() for process in self._processes), *self._ending)

    def _start(self) -> None:
        task = asyncio.get_running_loop().create_task(self._started())
        self._starting.add(task)
        task.add_done_callback(self._done_starting)

    async def _started(self) -> None:
        self._processes.append(await QueryProcess.start(self._config, self._warm, self._tails_of, self._gone))

    def _done_starting(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._processes:
            self._on_failure(error)
        self._end_idle_later(self._config.query.idle_seconds)
        self._on_change()

    def _look_again(self) -> None:
        self._growing = None
        self._on_change()

    def _gone(self, process: QueryProcess) -> None:
        if process in self._processes:
            self._processes.remove(process)
        self._on_change()

    def _end_idle_later(self, seconds: float) -> None:
        if self._idle_check is None and not self._closed:
            self._idle_check = asyncio.get_running_loop().call_later(seconds, self._end_idle)

    def _end_idle(self) -> None:
        self._idle_check = None
        now, limit = time.monotonic(), self._config.query.idle_seconds
        for process in [each for each in self._processes if each.idle and now - each.used_at >= limit]:
            self._processes.remove(process)
            task = asyncio.create_task(process.close())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        if self._processes:
            self._end_idle_later(max(0.0, _oldest(self._processes) + limit - now) + _LATER_SECONDS)


def _is_free(process: QueryProcess, alone: bool) -> bool:
    if alone:
        return process.idle
    return not process.taken and any(not desk.busy for desk in process.desks)


def _likeness(process: QueryProcess, affinity: Affinity) -> tuple[int, int]:
    same = sum(ours == theirs for ours, theirs in zip(affinity, process.used_for, strict=False))
    return same, sum(not desk.busy for desk in process.desks)


def _oldest(processes: Iterable[QueryProcess]) -> float:
    return min(process.used_at for process in processes)
