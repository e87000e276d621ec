"""One slot of the transaction log: a folder with one writer.

Every file begins with a checkpoint, so only the newest is needed; older ones are kept for people. A file is complete
with its checkpoint, on disk, before it gets its name.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from frazil.disk.durable import make_folder, sync_data, sync_file, sync_folder
from frazil.disk.files import DirectoryLock, io_error, write_all
from frazil.errors import DiskFull, FrazilError, TransactionLogBroken, TransactionLogWriteFailed
from frazil.pipeline.txlog.entries import Checkpoint, Entry, encode
from frazil.pipeline.txlog.file import damaged, file_path, files, is_torn, scan, slot_folder
from frazil.pipeline.txlog.state import State

logger = logging.getLogger(__name__)


class Slot:
    """`sync` may be called from any thread, everything else from one at a time."""

    def __init__(self, data_dir: Path, number: int, boot: str, max_files: int) -> None:
        """Take the slot, or raise `PartitionLocked`; then read what is there and cut off a torn end."""
        self.number = number
        self.folder = slot_folder(data_dir, number)
        self.state = State()
        self.next_number = 0
        self.entries_since_checkpoint = 0
        self._boot = boot
        self._max_files = max_files
        self._fd = -1
        self._path = self.folder
        self._position = 0
        self._synced = 0
        self._synced_number = 0
        """Entries below this number are known to be on disk, and so are `_synced` bytes of the file."""
        self._broken: str | None = None
        self._sync_lock = threading.Lock()
        with _explained("Opening", self.folder):
            make_folder(self.folder)
            self._lock = DirectoryLock(self.folder)
        try:
            with _explained("Reading", self.folder):
                self._recover()
        except BaseException:
            self._lock.release()
            raise

    def _recover(self) -> None:
        for leftover in self.folder.glob("*.new"):
            leftover.unlink()
        there = files(self.folder)
        if not there:
            return
        newest = scan(there[-1])
        if newest.flaw:
            if not is_torn(newest, self._boot):
                raise damaged(newest.path, newest.clean_bytes, f"{newest.flaw}, but whole frames follow")
            logger.warning(
                "cut off the torn end of a transaction log file",
                extra={"file": str(newest.path), "byte": newest.clean_bytes, "what": newest.flaw},
            )
            _cut(newest.path, newest.clean_bytes)
        try:
            for entry in newest.entries:
                self.state.apply(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(newest.path, 0, f"its checkpoint cannot be read: {error!r}") from error
        self.next_number = newest.next_number
        self.entries_since_checkpoint = len(newest.entries) - 1

    @property
    def size(self) -> int:
        """Bytes in the file being written."""
        return self._position

    @property
    def broken(self) -> str | None:
        return self._broken

    def begin(self, now_ms: int, state: State) -> None:
        """Write a checkpoint of `state` as the start of a new file. On an error the current one goes on."""
        with self._sync_lock:
            self._check()
            # A checkpoint right after another takes its place, so that idle restarts push no history out.
            number = (
                self.next_number - 1 if self.next_number and not self.entries_since_checkpoint else self.next_number
            )
            path = file_path(self.folder, number)
            draft = path.with_suffix(".new")
            encoded = encode(Checkpoint(number, now_ms, state.to_json(), self._boot), 0)
            if self._fd >= 0:
                self._sync()
            fd = -1
            try:
                fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
                position = write_all(fd, encoded.parts, 0)
                sync_file(fd)
                draft.rename(path)
            except OSError as error:
                if fd >= 0:
                    os.close(fd)
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
                raise _failed(error, "Writing a checkpoint to", path) from error
            if self._fd >= 0:
                os.close(self._fd)
            self._fd, self._path = fd, path
            self._position = self._synced = position
            self.next_number = self._synced_number = number + 1
            self.state, self.entries_since_checkpoint = state, 0
            try:
                sync_folder(self.folder)
            except OSError as error:
                raise self._break(error) from error
        self._drop_old()

    def _drop_old(self) -> None:
        try:
            for path in files(self.folder)[: -self._max_files]:
                path.unlink()
        except OSError as error:
            logger.warning(
                "cannot delete old files of the transaction log",
                extra={"folder": str(self.folder), "reason": error.strerror},
            )

    def append(self, entry: Entry) -> None:
        """Write one entry; on an error nothing of it stays."""
        self._check()
        encoded = encode(entry, self._synced)
        try:
            position = write_all(self._fd, encoded.parts, self._position)
        except OSError as error:
            self._undo()
            raise _failed(error, "Appending to", self._path) from error
        self._position = position
        self.state.apply(entry)
        self.next_number += 1
        self.entries_since_checkpoint += 1

    def _undo(self) -> None:
        try:
            os.ftruncate(self._fd, self._position)
        except OSError as error:
            raise self._break(error) from error

    def sync(self, number: int) -> None:
        """Return when the entry of this number is on disk; those who wait at the same time share one sync."""
        with self._sync_lock:
            self._check()
            if number >= self._synced_number:
                self._sync()

    def _sync(self) -> None:
        # In this order: an entry that comes in between counts as not synced, never the other way round.
        number, position = self.next_number, self._position
        try:
            sync_data(self._fd)
        except OSError as error:
            raise self._break(error) from error
        self._synced, self._synced_number = position, number

    def _check(self) -> None:
        if self._broken:
            raise TransactionLogBroken(self._broken)

    def _break(self, error: OSError) -> TransactionLogBroken:
        """After a failed sync nobody knows which bytes are on disk; only reading them again tells."""
        self._broken = (
            f"{self._path}: the disk failed ({error.strerror}), so the newest entries may or may not be stored. "
            f"Restart to read them back."
        )
        return TransactionLogBroken(self._broken)

    def close(self) -> None:
        with self._sync_lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            self._lock.release()


def _cut(path: Path, size: int) -> None:
    """Leave a file with just its clean frames, on disk: from now on it is an older one, which must be clean."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(fd, size)
        sync_file(fd)
    finally:
        os.close(fd)


def _failed(error: OSError, what: str, path: Path) -> FrazilError:
    explained = io_error(error, what, path)
    return explained if isinstance(explained, DiskFull) else TransactionLogWriteFailed(str(explained))


@contextmanager
def _explained(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise io_error(error, what, path) from error
