"""How far a load has come, for whoever shows it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from frazil.load.inputs import Input


class Watcher(Protocol):
    """Told of the progress, and asked for moments in which a signal must wait."""

    def checking(self, source: Input, read: int) -> None: ...

    def loading(self, source: Input, read: int, rows: int) -> None: ...

    def note(self, text: str) -> None:
        """Something a person should know, though it is no error."""

    def uninterrupted(self) -> AbstractContextManager[None]:
        """An append that is cut off in the middle would leave the log's writer unusable."""


class Unwatched:
    def checking(self, source: Input, read: int) -> None: ...

    def loading(self, source: Input, read: int, rows: int) -> None: ...

    def note(self, text: str) -> None: ...

    def uninterrupted(self) -> AbstractContextManager[None]:
        return nullcontext()
