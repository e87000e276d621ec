"""The write-ahead log of one partition: a folder of frame files with one writer.

The newest file is written, older ones wait until their records are sealed. Every opening and every rotation
starts a new file, complete with its header before it gets its name.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from frazil.disk.files import Watermark
from frazil.framefile.folder import cut_file, file_path, remove_drafts
from frazil.log.wal.entries import FileHeader, encode_closed
from frazil.log.wal.file_writer import WalWriter
from frazil.log.wal.recovery import SUFFIX, Recovered, recover

logger = logging.getLogger(__name__)


class Wal:
    """The WAL of one partition. Calls come from one thread at a time; `sync` and `drop_below` may come from any."""

    def __init__(self, directory: Path, *, boot: str, file_size: int, prefill: bool) -> None:
        """Files get their full size at once, so that they can be mapped; with `prefill` their zeros are written."""
        self.directory = directory
        self._boot = boot
        self.file = WalWriter(directory, file_size=file_size, prefill=prefill)
        """The file being written."""
        self._watermark = Watermark(directory, writable=True)
        self._files: list[tuple[Path, int]] = []
        """Finished files with the offset each ends at, oldest first."""
        self._sync_lock = threading.Lock()
        self._files_lock = threading.Lock()

    def recover(self) -> Recovered | None:
        """Read what is there and cut off a torn end."""
        recovered = recover(self.directory, self._boot, self._watermark.offset)
        remove_drafts(self.directory)
        if recovered is None:
            return None
        newest = recovered.files[-1]
        if newest.flaw:
            logger.warning("cut off the torn end of a WAL file", extra=newest.torn_end())
        cut_file(newest.path, newest.clean_bytes)
        self._files = [(file.path, file.end) for file in recovered.files]
        return recovered

    @property
    def acknowledged(self) -> int:
        """The watermark as it was found, or as it was published last."""
        return self._watermark.offset

    def begin(self, header: FileHeader) -> None:
        """Start a new file at the header's offset. On an error the current one goes on."""
        with self._sync_lock:
            finished = self.file.path if self.file.is_open else None
            path = file_path(self.directory, header.first_offset, SUFFIX)
            self.file.begin(path, header.encode())
            with self._files_lock:
                if finished:
                    self._files.append((finished, header.first_offset))
                self._files = [(p, end) for p, end in self._files if p != path]

    def sync(self) -> None:
        """Bring everything written so far to the disk."""
        with self._sync_lock:
            self.file.check()
            if self.file.is_open:
                self.file.sync()

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
                    self.file.sync_folder()
                except OSError as error:
                    logger.warning("cannot delete a WAL file", extra={"file": str(path), "reason": error.strerror})
                    return
                del self._files[0]

    def close(self, end: int | None) -> None:
        """Stop writing. With an `end`, say that nothing is missing up to there."""
        try:
            if end is not None and self.file.is_open and not self.file.broken:
                self.file.append(encode_closed(end).parts)
                self.file.settle()
        finally:
            self.file.close()
            self._watermark.close()
