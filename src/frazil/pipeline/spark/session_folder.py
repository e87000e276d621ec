"""The private folder of one Spark session, for Spark's temporary files and its settings while it starts.

Spark would otherwise write some of them to the current folder, or into its own installation.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from frazil.errors import FrazilIoError

_PREFIX = "frazil-spark-"


class SessionFolder:
    """A private folder in `TMPDIR`, or in the system's folder for temporary files."""

    def __init__(self) -> None:
        _remove_abandoned()
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            raise FrazilIoError(
                f"{tempfile.gettempdir()}: Spark needs a folder for temporary files ({error.strerror}). Set "
                f"TMPDIR to one with room."
            ) from error

    def make(self, name: str) -> Path:
        folder = self.path / name
        folder.mkdir()
        return folder

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        return path

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned() -> None:
    """Removes folders of processes that were killed. Nobody holds the locks of such folders."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder / "lock", os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
