"""Writes a log in which every frame counts.

A failed append leaves nothing behind, and the log goes on. After a failed sync nobody knows which bytes are on disk:
the log is broken, and only reading it again tells what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from frazil.disk.files import io_error, write_all
from frazil.errors import FrazilError, LogBroken
from frazil.framefile.frames import Bytes, Encoded
from frazil.framefile.writer import FrameWriter

ErrorOf = Callable[[OSError, str, Path], FrazilError]
"""It makes our error of what was refused, what was being done, and the file."""


class LogWriter(FrameWriter):
    """A `FrameWriter` that raises our errors, and refuses to write once it is broken."""

    def __init__(
        self,
        folder: Path,
        *,
        contents: str,
        beginning: str,
        error_of: ErrorOf = io_error,
        broken_error: type[LogBroken] = LogBroken,
    ) -> None:
        """`contents` and `beginning` are words for error messages: what the frames hold, and what `begin` does.
        `broken_error` is raised once the log is broken."""
        super().__init__(folder)
        self.broken: str | None = None
        """The reason why nothing can be written any more, if there is one."""
        self._contents = contents
        self._beginning = beginning
        self._error_of = error_of
        self._broken_error = broken_error

    def begin(self, path: Path, first: Encoded) -> None:
        """Go on in a new file, after the current one was brought to the disk."""
        self.check()
        self.settle()
        try:
            super().begin(path, first)
        except OSError as error:
            raise self._error_of(error, self._beginning, path) from error
        try:
            self.sync_folder()
        except OSError as error:
            raise self._break(error) from error

    def settle(self) -> None:
        """Leave the current file complete, all of it on disk."""
        if not self.is_open:
            return
        try:
            self._complete()
        except OSError as error:
            raise self._break(error) from error

    def _complete(self) -> None:
        super().sync()

    def append(self, parts: Sequence[Bytes]) -> int:
        """Write whole frames and return where they start; on an error nothing of them stays."""
        if self.broken:
            raise self._broken_error(self.broken)
        start = self.position
        try:
            self.position = write_all(self._fd, parts, start)
        except OSError as error:
            self._undo()
            raise self._error_of(error, "Appending to", self.path) from error
        return start

    def _undo(self) -> None:
        try:
            self.truncate()
        except OSError as error:
            raise self._break(error) from error

    def sync(self) -> None:
        """Bring everything written so far to the disk."""
        self.check()
        try:
            super().sync()
        except OSError as error:
            raise self._break(error) from error

    def check(self) -> None:
        """Raise when the log is broken."""
        if self.broken:
            raise self._broken_error(self.broken)

    def _break(self, error: OSError) -> LogBroken:
        self.broken = (
            f"{self.path}: the disk failed ({error.strerror}), so the newest {self._contents} may or may not be "
            f"stored. Restart to read them back."
        )
        return self._broken_error(self.broken)
