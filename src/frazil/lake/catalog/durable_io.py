"""Makes files of local tables survive a power loss.

A commit must never name a file that is not on disk. On object stores a finished put is durable. On a local disk a
file is durable only when the file, its name, and the folders above it are synced.
"""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

from pyarrow.fs import FileSystem
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from frazil.disk.durable import make_folder, sync_file, sync_folder

_BUFFER_BYTES = 1024 * 1024

_durable: set[Path] = set()
_lock = threading.Lock()


class DurableFileIO(PyArrowFileIO):
    """Does the same as PyIceberg's own class, but a local file is on disk when it is closed."""

    def new_output(self, location: str) -> PyArrowFile:
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return _DurableFile(location, path, self.fs_by_scheme(scheme, netloc))


class _DurableFile(PyArrowFile):
    def __init__(self, location: str, path: str, filesystem: FileSystem) -> None:
        super().__init__(location, path, filesystem)
        self._local_path = Path(path)

    def create(self, overwrite: bool = False) -> OutputStream:
        prepare_folder(self._local_path.parent)
        raw = _SyncedFile(str(self._local_path), "wb" if overwrite else "xb")
        return io.BufferedWriter(raw, _BUFFER_BYTES)


class _SyncedFile(io.FileIO):
    def close(self) -> None:
        if self.closed:
            return
        try:
            sync_file(self.fileno())
        finally:
            super().close()
        sync_folder(Path(os.fsdecode(self.name)).parent)


def prepare_folder(folder: Path) -> None:
    """Make the folder, and sync it and all folders above it, so that a power loss does not undo it.

    An existing folder is synced, too: another process may have made it and died before it could sync it.
    """
    with _lock:
        if folder in _durable and folder.is_dir():
            return
    make_folder(folder)
    for above in folder.parents:
        try:
            sync_folder(above)
        except PermissionError:
            # Folders that this user may not read belong to others, and are older than this one.
            break
        with _lock:
            if above in _durable:
                break
    with _lock:
        _durable.update((folder, *folder.parents))
