"""Reads one frame file back, and tells a torn end from damage.

- A torn end of the newest file is the rest of a write that nobody was told of: it may be cut off.
- Clean frames behind a bad one are damage. The exception is a restart of the machine: pages that were never synced
  may then be missing in the middle of a file, so it counts as torn from the first such byte on, but never before the
  byte that was known to be on disk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from frazil.errors import LogCorrupted
from frazil.framefile import frames


class ScannedFile(ABC):
    """A frame file, read up to its first flaw. Each kind of log says what its frames mean."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.boot = ""
        """The start of the machine during which the file was begun."""
        self.clean_bytes = 0
        self.synced_to = 0
        """The file was known to be on disk up to this byte: damage before it is never a torn write."""
        self.flaw: str | None = None
        """The reason why reading stopped before the end of the file, if it did."""
        self.clean_after_flaw = False

    def _scan(self, view: memoryview, start: int = 0) -> None:
        """Read the frames from `start` on. A file without a single clean frame is damaged."""
        for frame in frames.scan(view, start):
            if isinstance(frame, frames.Outcome):
                self._note_flaw(view)
                break
            frames.check_version(frame, str(self.path))
            self.synced_to = max(self.synced_to, self._read_frame(view, frame))
            self.clean_bytes = frame.end
        if not self.clean_bytes:
            raise self.damaged(0, self.flaw or "the file is empty")

    def _note_flaw(self, view: memoryview) -> None:
        rest = view[self.clean_bytes :]
        self.flaw = self._describe_flaw(rest) if rest else None
        if self.flaw is None:
            return
        later = frames.next_clean(view, self.clean_bytes + frames.ALIGN)
        while later is not None:
            synced_to = self._read_frame_after_flaw(view, later)
            if synced_to is not None:
                self.clean_after_flaw = True
                self.synced_to = max(self.synced_to, synced_to)
            later = frames.next_clean(view, later.end)

    def check_torn(self, boot: str) -> None:
        """Raise when the flaw of a newest file is damage, and not the rest of a write that nobody relies on."""
        lost_unsynced = self.boot != boot and self.clean_bytes >= self.synced_to
        if self.flaw and self.clean_after_flaw and not lost_unsynced:
            raise self.damaged(self.clean_bytes, f"{self.flaw}, but whole frames follow")

    def torn_end(self) -> dict[str, object]:
        """The flaw as fields of a log line."""
        return {"file": str(self.path), "byte": self.clean_bytes, "what": self.flaw}

    @abstractmethod
    def _read_frame(self, view: memoryview, frame: frames.Frame) -> int:
        """Take the next clean frame in, and return the `synced_to` that it carries, or 0."""

    @abstractmethod
    def _read_frame_after_flaw(self, view: memoryview, frame: frames.Frame) -> int | None:
        """Return the `synced_to` of a clean frame behind the flaw, or 0; None if the frame proves no damage."""

    @abstractmethod
    def _describe_flaw(self, rest: memoryview) -> str | None:
        """Say what is wrong with the bytes after the last clean frame; None if they belong to a whole file."""

    @abstractmethod
    def damaged(self, byte: int, why: str) -> LogCorrupted:
        """Return the error that tells of damage at a byte, and what a person can do about it."""
