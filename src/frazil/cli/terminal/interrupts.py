"""Holds back Ctrl-C and SIGTERM while something must not be interrupted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While this is entered, both signals raise `KeyboardInterrupt`, but not inside `held`."""

    def __init__(self) -> None:
        self._held = 0
        self._came = False

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        self._raise()

    def _raise(self) -> None:
        if self._came and not self._held:
            self._came = False
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        self._raise()
