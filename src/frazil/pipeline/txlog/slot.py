"""One slot of the transaction log: a folder with one writer.

Every file begins with a checkpoint, so only the newest is needed; older ones are kept for people. A file is complete
with its checkpoint, on disk, before it gets its name.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from frazil.disk.files import io_error
from frazil.errors import DiskFull, FrazilError, TransactionLogBroken, TransactionLogWriteFailed
from frazil.framefile.folder import cut_file, file_path, locked, read_newest
from frazil.framefile.log_writer import LogWriter
from frazil.pipeline.txlog.entries import Checkpoint, Entry, encode
from frazil.pipeline.txlog.file import SUFFIX, ScannedTxlog, files, slot_folder
from frazil.pipeline.txlog.state import State

logger = logging.getLogger(__name__)


class Slot:
    """One slot. `sync` may be called from any thread, everything else from one at a time."""

    def __init__(self, data_dir: Path, number: int, boot: str, max_files: int) -> None:
        """Take the slot, or raise `PartitionLocked`; then read what is there and cut off a torn end."""
        self.number = number
        self.folder = slot_folder(data_dir, number)
        self.state = State()
        self.next_number = 0
        self.entries_since_checkpoint = 0
        self._boot = boot
        self._max_files = max_files
        self._synced_number = 0
        """Entries below this number are known to be on disk."""
        self._sync_lock = threading.Lock()
        with locked(self.folder) as self._lock:
            self._recover()
            self._writer = LogWriter(
                self.folder,
                contents="entries",
                beginning="Writing a checkpoint to",
                error_of=_write_error,
                broken_error=TransactionLogBroken,
            )

    def _recover(self) -> None:
        newest = read_newest(self.folder, SUFFIX, self._boot, ScannedTxlog)
        if newest is None:
            return
        if newest.flaw:
            logger.warning("cut off the torn end of a transaction log file", extra=newest.torn_end())
            cut_file(newest.path, newest.clean_bytes)
        try:
            for entry in newest.entries:
                self.state.apply(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise newest.damaged(0, f"its checkpoint cannot be read: {error!r}") from error
        self.next_number = newest.next_number
        self.entries_since_checkpoint = len(newest.entries) - 1

    @property
    def size(self) -> int:
        """Bytes in the file being written."""
        return self._writer.position

    @property
    def broken(self) -> str | None:
        """The reason why nothing can be written any more, if there is one."""
        return self._writer.broken

    def begin(self, now_ms: int, state: State) -> None:
        """Write a checkpoint of `state` as the start of a new file. On an error the current one goes on."""
        with self._sync_lock:
            # A checkpoint right after another takes its place, so that idle restarts push no history out.
            number = (
                self.next_number - 1 if self.next_number and not self.entries_since_checkpoint else self.next_number
            )
            encoded = encode(Checkpoint(number, now_ms, state.to_json(), self._boot), 0)
            self._writer.begin(file_path(self.folder, number, SUFFIX), encoded)
            self.next_number = self._synced_number = number + 1
            self.state, self.entries_since_checkpoint = state, 0
        self._delete_old()

    def _delete_old(self) -> None:
        try:
            for path in files(self.folder)[: -self._max_files]:
                path.unlink()
        except OSError as error:
            logger.warning(
                "cannot delete old files of the transaction log",
                extra={"folder": str(self.folder), "reason": error.strerror},
            )

    def append(self, entry: Entry) -> None:
        """Write one entry. After an error nothing of it stays."""
        self._writer.append(encode(entry, self._writer.synced).parts)
        self.state.apply(entry)
        self.next_number += 1
        self.entries_since_checkpoint += 1

    def sync(self, number: int) -> None:
        """Return when the entry of this number is on disk. Callers that wait at the same time share one sync."""
        with self._sync_lock:
            self._writer.check()
            if number >= self._synced_number:
                # The number is read first: an entry that comes in between counts as not synced, never the other way.
                next_number = self.next_number
                self._writer.sync()
                self._synced_number = next_number

    def close(self) -> None:
        with self._sync_lock:
            self._writer.close()
            self._lock.release()


def _write_error(error: OSError, what: str, path: Path) -> FrazilError:
    explained = io_error(error, what, path)
    return explained if isinstance(explained, DiskFull) else TransactionLogWriteFailed(str(explained))
