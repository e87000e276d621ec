"""The spare WAL file, which is filled with zeros before it is needed.

Overwriting blocks that are on disk already makes `fdatasync` two to three times faster than growing a file,
because the file system has no metadata to write along (`docs/decisions/0002-wal.md`).
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from pathlib import Path

from frazil.disk.durable import sync_file

logger = logging.getLogger(__name__)

_CHUNK = bytes(1 << 20)


class SpareFile:
    """Keeps at most one spare file, which a thread of its own fills."""

    def __init__(self, path: Path, size: int) -> None:
        self.size = size
        self._path = path
        self._ready = False
        self._thread: threading.Thread | None = None
        path.unlink(missing_ok=True)

    def prepare(self) -> None:
        """Start to fill the file unless it is ready or being filled."""
        if self._ready or (self._thread and self._thread.is_alive()):
            return
        self._thread = threading.Thread(target=self._fill, name="frazil-wal-spare", daemon=True)
        self._thread.start()

    def _fill(self) -> None:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                for start in range(0, self.size, len(_CHUNK)):
                    os.pwrite(fd, _CHUNK, start)
                sync_file(fd)
            finally:
                os.close(fd)
            self._ready = True
        except OSError as error:
            # Only speed is lost: the next file grows as it is written.
            logger.info("no spare WAL file", extra={"file": str(self._path), "reason": error.strerror})
            self._remove()

    def take(self, target: Path) -> bool:
        """Move the spare to `target`. Return False when there is none yet."""
        if not self._ready:
            return False
        self._ready = False
        self._path.rename(target)
        return True

    def discard(self) -> None:
        if self._thread:
            self._thread.join()
        self._remove()

    def _remove(self) -> None:
        """Delete the file. If that fails, it is deleted when the WAL is opened again."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
