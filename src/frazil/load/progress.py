"""Defines how a load reports its progress."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from frazil.load.inputs import Input


class Watcher(Protocol):
    """Gets the progress, and defers signals where a load must not be interrupted."""

    def checking(self, source: Input, read: int) -> None: ...

    def loading(self, source: Input, read: int, rows: int) -> None: ...

    def note(self, text: str) -> None:
        """Shows a text that a person should know, though it is not an error."""

    def uninterrupted(self) -> AbstractContextManager[None]:
        """Returns a context in which signals wait. An append that is interrupted would leave the log's writer
        unusable."""


class Unwatched:
    def checking(self, source: Input, read: int) -> None: ...

    def loading(self, source: Input, read: int, rows: int) -> None: ...

    def note(self, text: str) -> None: ...

    def uninterrupted(self) -> AbstractContextManager[None]:
        return nullcontext()
