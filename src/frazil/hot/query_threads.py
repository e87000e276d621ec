"""Where questions over HTTP are worked on: threads of their own, those that may wait for a store apart from the rest.

What is in memory is found at once, however many wait for older rows; and nobody else in the process waits for either.
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
"""Each may have the rows of an answer in memory, and their text."""
COLD_WAITING = 16
"""Questions that wait for such a thread; further ones are refused."""
COLD_SECONDS = 60.0
"""How long a cold question takes at most, with its waiting. Its thread gives up by itself."""
_HOT_THREADS = min(32, (os.cpu_count() or 1) + 4)


class QueryThreads:
    def __init__(self) -> None:
        self._hot = ThreadPoolExecutor(_HOT_THREADS, thread_name_prefix="frazil-hot")
        self._cold = ThreadPoolExecutor(COLD_THREADS, thread_name_prefix="frazil-hot-cold")
        self._places = threading.Semaphore(COLD_THREADS + COLD_WAITING)

    async def hot(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(_submit(self._hot, work))

    async def cold(self, work: Callable[[], T]) -> T:
        """`QueriesBusy` when too many wait already, `QueryTimeout` when it takes too long."""
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
        # Not when nobody waits for it any more, but when its thread is free.
        working.add_done_callback(lambda _: self._places.release())
        try:
            async with asyncio.timeout(COLD_SECONDS):
                return await asyncio.wrap_future(working)
        except TimeoutError:
            raise QueryTimeout(f"Nothing was found within {COLD_SECONDS:g} seconds. Ask again later.") from None

    def close(self) -> None:
        """Whoever is working ends by itself."""
        self._hot.shutdown(wait=False, cancel_futures=True)
        self._cold.shutdown(wait=False, cancel_futures=True)


def _submit(executor: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
    try:
        return executor.submit(work)
    except RuntimeError:
        raise ShutdownError("The hot buffer is not running.") from None
