"""The write-ahead log of one partition: a directory of frame files with one writer.

The newest file is written, older ones wait until their records are sealed. Every opening and every rotation
starts a new file, complete with its header before it gets its name.
"""

from __future__ import annotations

import logging
import mmap
import os
import threading
from pathlib import Path

import pyarrow as pa

from frazil.disk.durable import sync_data, sync_file
from frazil.disk.files import Watermark, io_error, write_all
from frazil.errors import LogBroken
from frazil.framefile import frames
from frazil.log.wal.entries import FileHeader, encode_closed
from frazil.log.wal.recovery import SUFFIX, Recovered, recover
from frazil.log.wal.spare import SpareFile

logger = logging.getLogger(__name__)


class Wal:
    """Calls come from one thread at a time, but for `sync` and `drop_below`, which may come from any."""

    def __init__(self, directory: Path, *, boot: str, file_size: int, prefill: bool) -> None:
        """Files get their full size at once, so that they can be mapped; with `prefill` their zeros are written."""
        self.directory = directory
        self._folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self._boot = boot
        self._watermark = Watermark(directory, writable=True)
        self._file_size = file_size
        self._spare = SpareFile(directory / "spare", file_size) if prefill else None
        self._files: list[tuple[Path, int]] = []
        """Finished files with the offset each ends at, oldest first."""
        self._fd = -1
        self._path = directory
        self._map = pa.py_buffer(b"")
        self._header_end = 0
        self._position = 0
        self._synced = 0
        self._broken: str | None = None
        self._sync_lock = threading.Lock()
        self._files_lock = threading.Lock()

    def recover(self) -> Recovered | None:
        """Read what is there and cut off a torn end."""
        recovered = recover(self.directory, self._boot, self._watermark.offset)
        for leftover in self.directory.glob("*.new"):
            leftover.unlink()
        if recovered is None:
            return None
        newest = recovered.files[-1]
        if newest.flaw:
            logger.warning(
                "cut off the torn end of a WAL file",
                extra={"file": str(newest.path), "byte": newest.clean_bytes, "what": newest.flaw},
            )
        _cut(newest.path, newest.clean_bytes)
        self._files = [(file.path, file.end) for file in recovered.files]
        return recovered

    @property
    def acknowledged(self) -> int:
        """The watermark as it was found, or as it was published last."""
        return self._watermark.offset

    @property
    def size(self) -> int:
        """Bytes in the file being written."""
        return self._position

    @property
    def filled(self) -> int:
        """Bytes of records in that file."""
        return self._position - self._header_end

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    @property
    def synced(self) -> int:
        """Bytes of that file known to be on disk."""
        return self._synced

    @property
    def broken(self) -> str | None:
        return self._broken

    def begin(self, header: FileHeader) -> None:
        """Start a new file at the header's offset. On an error the current one goes on."""
        with self._sync_lock:
            self._settle()
            path = self.directory / f"{header.first_offset:020d}{SUFFIX}"
            draft = path.with_suffix(".new")
            fd = -1
            try:
                fd = self._open(draft)
                position = write_all(fd, header.encode().parts, 0)
                os.ftruncate(fd, max(self._file_size + position, os.fstat(fd).st_size))
                sync_file(fd)
                mapped = pa.py_buffer(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
                draft.rename(path)
            except OSError as error:
                if fd >= 0:
                    os.close(fd)
                draft.unlink(missing_ok=True)
                raise io_error(error, "Starting the WAL file", path) from error
            self._release(header.first_offset)
            with self._files_lock:
                self._files = [(p, end) for p, end in self._files if p != path]
            self._fd, self._path, self._map = fd, path, mapped
            self._header_end = self._position = self._synced = position
            try:
                sync_file(self._folder)
            except OSError as error:
                raise self._break(error) from error

    def _open(self, draft: Path) -> int:
        if self._spare and self._spare.take(draft):
            return os.open(draft, os.O_RDWR)
        return os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def _settle(self) -> None:
        """Leave the current file complete: no prefilled rest, all of it on disk."""
        if self._broken:
            raise LogBroken(self._broken)
        if self._fd < 0:
            return
        try:
            os.ftruncate(self._fd, self._position)
            sync_file(self._fd)
        except OSError as error:
            raise self._break(error) from error
        self._synced = self._position

    def _release(self, end: int) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            with self._files_lock:
                self._files.append((self._path, end))

    def append(self, encoded: frames.Encoded) -> int:
        """Write one frame and return where it starts; on an error nothing of it stays."""
        if self._broken:
            raise LogBroken(self._broken)
        start = self._position
        try:
            self._position = write_all(self._fd, encoded.parts, start)
        except OSError as error:
            self._undo()
            raise io_error(error, "Appending to", self._path) from error
        if self._spare and self._position > self._spare.size // 2:
            self._spare.prepare()
        return start

    def mapped(self, start: int, size: int) -> pa.Buffer | None:
        """Bytes that were written, straight from the page cache; None for what runs past the file's usual size."""
        return self._map.slice(start, size) if start + size <= self._map.size else None

    def _undo(self) -> None:
        try:
            os.ftruncate(self._fd, self._position)
        except OSError as error:
            raise self._break(error) from error

    def sync(self) -> None:
        """Bring everything written so far to the disk."""
        with self._sync_lock:
            if self._broken:
                raise LogBroken(self._broken)
            position = self._position
            if self._fd < 0 or position == self._synced:
                return
            try:
                sync_data(self._fd)
            except OSError as error:
                raise self._break(error) from error
            self._synced = position

    def _break(self, error: OSError) -> LogBroken:
        """After a failed sync nobody knows which bytes are on disk; only reading them again tells."""
        self._broken = (
            f"{self._path}: the disk failed ({error.strerror}), so the newest records may or may not be stored. "
            f"Restart to read them back."
        )
        return LogBroken(self._broken)

    def publish(self, offset: int) -> None:
        """Let readers in other processes go up to this offset."""
        self._watermark.offset = offset

    def drop_below(self, offset: int) -> None:
        """Delete finished files all of whose records are below `offset`, oldest first and none before the older."""
        with self._files_lock:
            while self._files and self._files[0][1] <= offset:
                path = self._files[0][0]
                try:
                    path.unlink(missing_ok=True)
                    sync_file(self._folder)
                except OSError as error:
                    logger.warning("cannot delete a WAL file", extra={"file": str(path), "reason": error.strerror})
                    return
                del self._files[0]

    def close(self, end: int | None) -> None:
        """Stop writing. With an `end`, say that nothing is missing up to there."""
        try:
            if end is not None and self._fd >= 0 and not self._broken:
                self.append(encode_closed(end))
                self._settle()
        finally:
            self._release(end or 0)
            if self._spare:
                self._spare.discard()
            self._watermark.close()
            os.close(self._folder)


def _cut(path: Path, size: int) -> None:
    """Leave a file with just its clean frames, on disk: from now on it is an older one, which must be clean."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(fd, size)
        sync_file(fd)
    finally:
        os.close(fd)
