"""Runs lookups for HTTP requests in threads of their own. Lookups that may wait for a store have separate threads.

So records in memory are found at once, however many lookups wait for older rows, and nothing else in the process
waits for either.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from frazil.errors import QueriesBusy, QueryTimeout, ShutdownError

T = TypeVar("T")

COLD_THREADS = 4
"""Each of these threads may hold the rows of an answer and their text in memory."""
COLD_WAITING = 16
"""So many lookups may wait for such a thread; more are refused."""
COLD_SECONDS = 60.0
"""A cold lookup takes at most this long, including its waiting. Its thread gives up by itself."""
_HOT_THREADS = min(32, (os.cpu_count() or 1) + 4)


class QueryThreads:
    def __init__(self) -> None:
        self._hot = ThreadPoolExecutor(_HOT_THREADS, thread_name_prefix="frazil-hot")
        self._cold = ThreadPoolExecutor(COLD_THREADS, thread_name_prefix="frazil-hot-cold")
        self._places = threading.Semaphore(COLD_THREADS + COLD_WAITING)

    async def hot(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(_submit(self._hot, work))

    async def cold(self, work: Callable[[], T]) -> T:
        """Raises `QueriesBusy` when too many wait already, and `QueryTimeout` when it takes too long."""
        if not self._places.acquire(blocking=False):
            raise QueriesBusy(
                f"{COLD_THREADS + COLD_WAITING} questions for rows that are not in memory are being answered, or "
                f"wait. Ask again later, or without cold."
            )
        try:
            working = _submit(self._cold, work)
        except ShutdownError:
            self._places.release()
            raise
        # The place is released when the thread is free, not when the caller stops waiting.
        working.add_done_callback(lambda _: self._places.release())
        try:
            async with asyncio.timeout(COLD_SECONDS):
                return await asyncio.wrap_future(working)
        except TimeoutError:
            raise QueryTimeout(f"Nothing was found within {COLD_SECONDS:g} seconds. Ask again later.") from None

    def close(self) -> None:
        """Stops taking work. Lookups that run end by themselves."""
        self._hot.shutdown(wait=False, cancel_futures=True)
        self._cold.shutdown(wait=False, cancel_futures=True)


def _submit(executor: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
    try:
        return executor.submit(work)
    except RuntimeError:
        raise ShutdownError("The hot buffer is not running.") from None
