"""Wakes threads and coroutines that wait for something to change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class Signal:
    """A condition that both threads and coroutines can wait on."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._threads = 0
        self._futures: list[asyncio.Future[None]] = []
        self._listeners: tuple[Callable[[], None], ...] = ()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` at every change, in the thread that made it: it must be quick and must not raise."""
        with self._condition:
            self._listeners = (*self._listeners, listener)

    def ignore(self, listener: Callable[[], None]) -> None:
        with self._condition:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    def notify(self) -> None:
        """Wake everybody who waits, so that they check their condition again."""
        for listener in self._listeners:
            listener()
        if not self._threads and not self._futures:
            return
        with self._condition:
            self._condition.notify_all()
            futures, self._futures = self._futures, []
        resolve(futures)

    def wait(self, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Block until `ready()` is true. Return False when the timeout came first."""
        with self._condition:
            self._threads += 1
            try:
                return self._condition.wait_for(ready, timeout)
            finally:
                self._threads -= 1

    async def wait_async(self, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Do what `wait` does without blocking the event loop."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            future: asyncio.Future[None] = loop.create_future()
            with self._condition:
                self._futures.append(future)
            try:
                if ready():
                    return True
                remaining = None if deadline is None else deadline - loop.time()
                if remaining is not None and remaining <= 0:
                    return False
                await asyncio.wait([future], timeout=remaining)
            finally:
                with self._condition:
                    if future in self._futures:
                        self._futures.remove(future)


def resolve(futures: list[asyncio.Future[None]]) -> None:
    """Complete futures from any thread, waking each event loop once. Futures of a closed loop are left out."""
    for loop in {future.get_loop() for future in futures}:
        try:
            loop.call_soon_threadsafe(_complete, [future for future in futures if future.get_loop() is loop])
        except RuntimeError:
            if not loop.is_closed():
                raise


def _complete(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
