"""Files of local tables that survive a power loss.

A commit must never name a file that the disk has not got. On object stores a finished put is durable; on a local
disk a file is only when it, its name, and the folders above it are synced.
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
    """As PyIceberg's own, but a local file is on disk when it is closed."""

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
    """Make the folder, and make sure that it and all above it will be found again after a power loss.

    A folder that exists may be one that another process made and did not live to sync.
    """
    with _lock:
        if folder in _durable and folder.is_dir():
            return
    make_folder(folder)
    for above in folder.parents:
        try:
            sync_folder(above)
        except PermissionError:
            # Folders that this user may not even read are not its own, and older than this.
            break
        with _lock:
            if above in _durable:
                break
    with _lock:
        _durable.update((folder, *folder.parents))
