"""Writes WAL files, which have their full size from the start, so that they can be mapped."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pyarrow as pa

from frazil.framefile.frames import Encoded
from frazil.framefile.log_writer import LogWriter
from frazil.log.wal.spare import SpareFile

_NOTHING = pa.py_buffer(b"")


class WalWriter(LogWriter):
    """A `LogWriter` whose file is mapped while it is written. With `prefill` its zeros are written beforehand."""

    def __init__(self, directory: Path, *, file_size: int, prefill: bool) -> None:
        super().__init__(directory, contents="records", beginning="Starting the WAL file")
        self._header_end = 0
        self._file_size = file_size
        self._spare = SpareFile(directory / "spare", file_size) if prefill else None
        self._map = self._draft_map = _NOTHING

    @property
    def filled(self) -> int:
        """Bytes of records in the file."""
        return self.position - self._header_end

    @property
    def unsynced(self) -> int:
        """Bytes written since the last sync."""
        return self.position - self.synced

    def begin(self, path: Path, first: Encoded) -> None:
        """Go on in a new file; the rest of the current one, which nothing was written to, is cut off."""
        try:
            super().begin(path, first)
            self._header_end, self._map = self.position, self._draft_map
        finally:
            # A map of a draft that was given up would keep its blocks on the disk.
            self._draft_map = _NOTHING

    def _create(self, draft: Path) -> int:
        if self._spare and self._spare.take(draft):
            return os.open(draft, os.O_RDWR)
        return super()._create(draft)

    def _prepare(self, fd: int, position: int) -> None:
        os.ftruncate(fd, max(self._file_size + position, os.fstat(fd).st_size))
        self._draft_map = pa.py_buffer(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))

    def _complete(self) -> None:
        self.truncate()
        self.sync_all()

    def sync(self) -> None:
        """Bring everything written so far to the disk; have a spare made for the next file when this is half full."""
        if self._spare and self.position > self._spare.size // 2:
            self._spare.prepare()
        super().sync()

    def mapped(self, start: int, size: int) -> pa.Buffer | None:
        """Return written bytes straight from the page cache; None for what runs past the file's usual size."""
        return self._map.slice(start, size) if start + size <= self._map.size else None

    def close(self) -> None:
        if self._spare:
            self._spare.discard()
        super().close()
