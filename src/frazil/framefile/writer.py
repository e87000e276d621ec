"""Writes the newest file of a folder of frames."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from frazil.disk.durable import sync_data, sync_file
from frazil.disk.files import write_all
from frazil.framefile.folder import DRAFT
from frazil.framefile.frames import Bytes, Encoded


class FrameWriter:
    """Appends to one file at a time, and begins the next one. What the disk refuses is raised as `OSError`.

    `begin` and `append` are called by one thread at a time. `sync` may run beside `append`, but not beside `begin`.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder
        """The file being written; the folder until there is one."""
        self.position = 0
        """The number of bytes written to it."""
        self.synced = 0
        """The number of those bytes that are known to be on disk."""
        self._fd = -1
        # It is open all the time, so that making a name durable never fails for want of a descriptor.
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def begin(self, path: Path, first: Encoded) -> None:
        """Go on in a new file, which is on disk with its first frame before it gets its name.

        On an error the current file stays the one being written. The name is durable after `sync_folder`.
        """
        draft = path.with_suffix(DRAFT)
        fd = -1
        try:
            fd = self._create(draft)
            position = write_all(fd, first.parts, 0)
            self._prepare(fd, position)
            sync_file(fd)
            draft.rename(path)
        except OSError:
            if fd >= 0:
                os.close(fd)
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        self.close_file()
        self._fd, self.path = fd, path
        self.position = self.synced = position

    def _create(self, draft: Path) -> int:
        """Open an empty file for writing."""
        return os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def _prepare(self, fd: int, position: int) -> None:
        """Do to a draft what must be done before it is synced; its first frame ends at `position`."""

    def append(self, parts: Sequence[Bytes]) -> int:
        """Write whole frames and return where they start. After an error some of their bytes may be there."""
        start = self.position
        self.position = write_all(self._fd, parts, start)
        return start

    def truncate(self) -> None:
        """Let the file end where the last whole frame ends."""
        os.ftruncate(self._fd, self.position)

    def sync(self) -> None:
        """Bring everything written so far to the disk."""
        position = self.position
        if position == self.synced:
            return
        sync_data(self._fd)
        self.synced = position

    def sync_all(self) -> None:
        """Do the same, with the size and the times of the file."""
        position = self.position
        sync_file(self._fd)
        self.synced = position

    def sync_folder(self) -> None:
        """Make the names of the files durable."""
        sync_file(self._folder_fd)

    def close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        self.close_file()
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1
