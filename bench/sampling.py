"""Measures something again and again while something else happens."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Sampler(ABC):
    """Takes a sample when it is entered, at regular intervals, and once more when it is left."""

    def __init__(self, every_seconds: float) -> None:
        self._every = every_seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._sample()

    def _watch(self) -> None:
        while not self._done.wait(self._every):
            self._sample()

    @abstractmethod
    def _sample(self) -> None: ...
