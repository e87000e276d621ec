"""Making sure that files and folders survive a power loss."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform == "darwin":
    import fcntl

    def sync_file(descriptor: int) -> None:
        """On macOS `fsync` stops at the disk's own cache; this does not."""
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)

    sync_data = sync_file
else:

    def sync_file(descriptor: int) -> None:
        os.fsync(descriptor)

    def sync_data(descriptor: int) -> None:
        """As `sync_file`, without what is not needed to read the data back."""
        os.fdatasync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable (on Windows they are when the file is)."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each durable in the one that holds it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)
