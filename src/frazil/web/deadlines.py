"""Enforces the deadlines of many tasks with one timer.

A timer for each, which is hardly ever due, would take as long as the rest of a small request.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

LOOK_SECONDS = 0.25
"""This is how often deadlines are checked. No task is stopped before its deadline, or later than by this."""


class Deadline:
    """Limits the time of what the current task does within the `with` block: raises `TimeoutError` afterwards.

    `at` is the deadline by the clock of the event loop; it may be moved.
    """

    __slots__ = ("_asked", "_task", "_watch", "at", "passed")

    def __init__(self, at: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.at = at
        self.passed = False
        self._task = task
        self._asked = task.cancelling()
        self._watch = _watch_of(asyncio.get_running_loop())

    def __enter__(self) -> Self:
        self._watch.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.remove(self)
        # If somebody else cancelled the task as well, it stays cancelled.
        if self.passed and self._task.uncancel() <= self._asked and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def pass_by(self) -> None:
        self.passed = True
        self._task.cancel()


class _Watch:
    """Checks the deadlines of one event loop. Its timer runs only while there are any."""

    def __init__(self) -> None:
        self._running: set[Deadline] = set()
        self._looking = False

    def add(self, deadline: Deadline) -> None:
        self._running.add(deadline)
        if not self._looking:
            self._look_later(asyncio.get_running_loop())

    def remove(self, deadline: Deadline) -> None:
        self._running.discard(deadline)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = True
        loop.call_later(LOOK_SECONDS, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for deadline in self._running:
            if deadline.at <= now and not deadline.passed:
                deadline.pass_by()
        self._looking = False
        if self._running:
            self._look_later(loop)


_WATCHES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()


def _watch_of(loop: asyncio.AbstractEventLoop) -> _Watch:
    watch = _WATCHES.get(loop)
    if watch is None:
        watch = _WATCHES[loop] = _Watch()
    return watch
