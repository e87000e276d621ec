"""Syncs files and folders, so that they survive a power loss."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform == "darwin":
    import fcntl

    def sync_file(descriptor: int) -> None:
        """Sync a file. On macOS `fsync` stops at the disk's own cache; this does not."""
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)

    sync_data = sync_file
else:

    def sync_file(descriptor: int) -> None:
        os.fsync(descriptor)

    def sync_data(descriptor: int) -> None:
        """Sync the data of a file, without metadata that is not needed to read it back."""
        os.fdatasync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. On Windows they are durable when the file is."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, and make their names durable."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)
