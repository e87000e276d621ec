"""An object store in a local folder. Objects are files, created as atomically and durably as on S3."""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from frazil.disk.durable import make_folder, sync_file, sync_folder
from frazil.errors import DiskFull, FrazilError, ObjectExists, ObjectNotFound, StorageError
from frazil.store.interface import ObjectInfo, check_key, check_prefix, check_range

STAGING = ".staging"

# This is longer than any put takes, so that files that another process is writing are left alone.
STALE_SECONDS = 3600.0

# EFBIG is a limit on the size of files (`ulimit -f`), which is one more way to have no room.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class LocalStore:
    """A new object is written and synced under `.staging`, then linked to its name, which only one can do."""

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        """With `read_only` nothing is written, and listings sync no folders: what they show may vanish with a power
        loss."""
        self._root = root
        self._read_only = read_only
        self._staging = root / STAGING
        self._synced: set[Path] = set()
        if not read_only:
            with self._errors("open", STAGING):
                self._remove_stale()

    @property
    def url(self) -> str:
        return str(self._root)

    def put_new(self, key: str, data: bytes | memoryview | pa.Buffer) -> None:
        self._check_writable("put", key)
        target = self._path(key)
        staged = self._staging / uuid.uuid4().hex
        with self._errors("put", key):
            make_folder(self._staging)
            try:
                _write(staged, data)
                self._link(staged, target, key)
            finally:
                staged.unlink(missing_ok=True)

    def get(self, key: str) -> pa.Buffer:
        path = self._path(key)
        with self._errors("get", key):
            if not path.is_file():
                raise FileNotFoundError(errno.ENOENT, path)
            with pa.memory_map(str(path)) as file:
                return file.read_buffer()

    def get_range(self, key: str, start: int, length: int) -> pa.Buffer:
        check_range(start, length)
        whole = self.get(key)
        return whole.slice(min(start, whole.size), max(0, min(length, whole.size - start)))

    def get_tail(self, key: str, length: int) -> tuple[pa.Buffer, int]:
        check_range(0, length)
        whole = self.get(key)
        return whole.slice(max(0, whole.size - length)), whole.size

    def list(self, prefix: str, after: str | None = None) -> Iterator[ObjectInfo]:
        folder = check_prefix(prefix)
        with self._errors("list", folder):
            yield from self._walk(f"{folder}/" if folder else "", after or "")

    def list_folders(self, prefix: str) -> Sequence[str]:
        folder = check_prefix(prefix)
        base = f"{folder}/" if folder else ""
        with self._errors("list", folder):
            return sorted(base + name.removesuffix("/") for name, _ in self._entries(base) if name.endswith("/"))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._check_writable("delete", key)
            with self._errors("delete", key):
                self._path(key).unlink(missing_ok=True)

    def _check_writable(self, operation: str, key: str) -> None:
        if self._read_only:
            raise StorageError(f"{operation} {key!r} in {self.url}: the store was opened to be read only.")

    def _path(self, key: str) -> Path:
        if check_key(key).split("/", 1)[0] == STAGING:
            raise StorageError(f"{key!r} cannot be the key of an object: {STAGING} is kept for unfinished ones.")
        return self._root / key

    def _link(self, staged: Path, target: Path, key: str) -> None:
        folder = target.parent
        self._prepare(folder)
        try:
            os.link(staged, target)
        except FileExistsError as error:
            raise ObjectExists(f"put {key!r} in {self.url}: the object exists.") from error
        finally:
            # The folder is synced also for an object that was there: its writer may have died before it did so,
            # and our caller relies on the object.
            sync_folder(folder)

    def _prepare(self, folder: Path) -> None:
        """Make the folder, and make sure that it and all above it will be found again after a power loss.

        A folder that exists may be one that another thread, or a process that died, has not synced yet.
        """
        if folder in self._synced and folder.is_dir():
            return
        make_folder(folder)
        above = folder
        while above != self._root:
            above = above.parent
            sync_folder(above)
        self._synced.add(folder)

    def _walk(self, base: str, after: str) -> Iterator[ObjectInfo]:
        for name, entry in self._entries(base):
            key = base + name
            if name.endswith("/"):
                if key > after or after.startswith(key):
                    yield from self._walk(key, after)
            elif key > after:
                try:
                    info = entry.stat()
                except FileNotFoundError:
                    continue
                yield ObjectInfo(key, info.st_size, datetime.fromtimestamp(info.st_mtime, UTC))

    def _entries(self, base: str) -> Sequence[tuple[str, os.DirEntry[str]]]:
        """Return what is in a folder, sorted as keys are. Names of folders end with a slash.

        The folder is synced before, unless all is only read: as on S3, an object that a listing shows cannot vanish.
        """
        folder = self._root / base
        try:
            with os.scandir(folder) as entries:
                named = [(f"{entry.name}/" if entry.is_dir() else entry.name, entry) for entry in entries]
            if not self._read_only:
                sync_folder(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted((pair for pair in named if base or pair[0] != f"{STAGING}/"), key=lambda pair: pair[0])

    def _remove_stale(self) -> None:
        oldest = time.time() - STALE_SECONDS
        for path in self._staging.iterdir() if self._staging.is_dir() else ():
            try:
                if path.stat().st_mtime < oldest:
                    path.unlink()
            except FileNotFoundError:
                continue

    @contextmanager
    def _errors(self, operation: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise translated(error, operation, key, self.url) from error


def translated(error: OSError, operation: str, key: str, url: str) -> FrazilError:
    where = f"{operation} {key!r} in {url}"
    reason = os.strerror(error.errno) if error.errno else str(error)
    if isinstance(error, FileNotFoundError) and operation == "get":
        return ObjectNotFound(f"{where}: there is no such object.")
    if error.errno in _NO_ROOM:
        return DiskFull(f"{where}: {reason}. Nothing was stored; make room and it will go on.")
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return StorageError(
            f"{where}: {reason}. Check that this user may read and write the folder, and that its file system has "
            "hard links."
        )
    return StorageError(f"{where}: {reason}. Check the folder and its disk.")


def _write(path: Path, data: bytes | memoryview | pa.Buffer) -> None:
    rest = memoryview(data).cast("B")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        sync_file(descriptor)
    finally:
        os.close(descriptor)
