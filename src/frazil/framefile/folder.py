"""A folder of frame files: its lock, the names of its files, and what is done to whole files.

A file is named after the number of its first entry, so names sort from old to new. It is written as a draft, which
gets its name when it is complete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from frazil.disk.durable import make_folder, sync_file
from frazil.disk.files import DirectoryLock, explained
from frazil.framefile.scan import ScannedFile

DRAFT = ".new"

_NUMBER = re.compile(r"\d{20}")

Scanned = TypeVar("Scanned", bound=ScannedFile)


def lock_folder(folder: Path) -> DirectoryLock:
    """Make the folder if it is missing and lock it; `PartitionLocked` when another writer has it."""
    with explained("Opening", folder):
        make_folder(folder)
        return DirectoryLock(folder)


@contextmanager
def locked(folder: Path) -> Iterator[DirectoryLock]:
    """Lock the folder for a body that reads it. The lock stays held unless the body fails."""
    lock = lock_folder(folder)
    try:
        with explained("Reading", folder):
            yield lock
    except BaseException:
        lock.release()
        raise


def file_path(folder: Path, number: int, suffix: str) -> Path:
    return folder / f"{number:020d}{suffix}"


def numbered_files(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a folder, oldest first."""
    return sorted(path for path in folder.iterdir() if path.suffix == suffix and _NUMBER.fullmatch(path.stem))


def read_newest(folder: Path, suffix: str, boot: str, scan: Callable[[Path], Scanned]) -> Scanned | None:
    """Scan the newest file, after a check that its end is torn at the worst; None when there is no file."""
    remove_drafts(folder)
    paths = numbered_files(folder, suffix)
    if not paths:
        return None
    newest = scan(paths[-1])
    newest.check_torn(boot)
    return newest


def remove_drafts(folder: Path) -> None:
    """Delete files that were never finished."""
    for draft in folder.glob(f"*{DRAFT}"):
        draft.unlink()


def cut_file(path: Path, size: int) -> None:
    """Leave a file with just its clean frames, on disk: from now on it is an older one, which must be clean."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(fd, size)
        sync_file(fd)
    finally:
        os.close(fd)
