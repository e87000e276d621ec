"""Local files: whole writes, error messages, the lock of a folder, and a watermark that processes share."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from frazil.disk.durable import make_folder
from frazil.errors import DiskFull, FrazilError, FrazilIoError, PartitionLocked

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write_all(fd: int, parts: Sequence[bytes | memoryview], position: int) -> int:
    """Write all parts at a position. Return the position after them."""
    pending = list(parts)
    while pending:
        written = os.pwritev(fd, pending, position)
        position += written
        while pending and written >= len(pending[0]):
            written -= len(pending.pop(0))
        if pending and written:
            pending[0] = memoryview(pending[0])[written:]
    return position


def io_error(error: OSError, what: str, path: Path) -> FrazilError:
    if error.errno in NO_ROOM:
        room = f"no room on the disk ({error.strerror}). Free some and try again; nothing of this was stored."
        return DiskFull(f"{what} {path}: {room}")
    return FrazilIoError(f"{what} {path}: {error.strerror}.")


@contextmanager
def explained(what: str, path: Path) -> Iterator[None]:
    """Raise an `OSError` of the body as the error of ours that says what was being done to which file."""
    try:
        yield
    except OSError as error:
        raise io_error(error, what, path) from error


def move_away(folder: Path) -> str:
    """Return a shell command that moves a damaged folder away, so that a new one is begun in its place."""
    path = str(folder.resolve())
    return shlex.join(["mv", "--", path, f"{path}.damaged"])


def check_writable(folder: Path) -> None:
    """Raise when nothing can be stored in a folder."""
    probe = folder / f"probe-{os.getpid()}"
    try:
        make_folder(folder)
        try:
            probe.write_bytes(bytes(mmap.PAGESIZE))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise io_error(error, "Writing to", folder) from error


class DirectoryLock:
    """Keeps a second process, and a second writer in this one, out of a folder. It ends with the process."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise PartitionLocked(
                f"{directory} is in use by process {holder}. Stop it, or use another `data_dir`."
            ) from None
        with suppress(OSError):
            # The process id is only for the message that another process gets. A full disk must not keep anybody out.
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class NoLock:
    """Takes the place of a folder's lock for a writer that keeps nobody out."""

    def release(self) -> None:
        """Do nothing: there is no lock."""


class Watermark:
    """The offset up to which records may be read, shared with other processes through a mapped file.

    Below it there are only whole frames, synced as the settings promise, so followers never see a record that may
    vanish. It also tells a torn write from lost records after a crash.
    """

    _SIZE = mmap.PAGESIZE

    def __init__(self, directory: Path, *, writable: bool) -> None:
        path = self._path = directory / "watermark"
        flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        fd = os.open(path, flags, 0o600)
        try:
            if writable and os.fstat(fd).st_size < self._SIZE:
                os.pwrite(fd, bytes(self._SIZE), 0)
            status = os.fstat(fd)
            self._file = (status.st_dev, status.st_ino)
            if status.st_size < self._SIZE:
                raise FileNotFoundError(errno.ENOENT, "still being made", str(path))
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._map = mmap.mmap(fd, self._SIZE, access=access)
            # Assigning to such a view writes eight bytes at once: no reader sees half of them.
            self._number = memoryview(self._map).cast("Q")
        finally:
            os.close(fd)

    @property
    def offset(self) -> int:
        return self._number[0]

    @offset.setter
    def offset(self, value: int) -> None:
        self._number[0] = value

    def is_current(self) -> bool:
        """Tell whether the mapped file is still the one of this name. Files that exist have different numbers."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._file

    def close(self) -> None:
        self._number.release()
        self._map.close()


def read_watermark(directory: Path) -> int:
    """Return the current watermark, 0 when there is none."""
    try:
        watermark = Watermark(directory, writable=False)
    except FileNotFoundError:
        return 0
    try:
        return watermark.offset
    finally:
        watermark.close()
