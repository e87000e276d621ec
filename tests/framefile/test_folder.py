from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.errors import FrazilIoError, LogCorrupted, PartitionLocked
from frazil.framefile.folder import cut_file, file_path, lock_folder, locked, numbered_files, read_newest
from tests.framefile.support import SIZE, ScannedNumbers, content, flipped

SUFFIX = ".numbers"


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there yet"
    with locked(folder) as lock:
        pass
    with pytest.raises(PartitionLocked, match=f"in use by process {os.getpid()}"):
        lock_folder(folder)
    lock.release()
    lock_folder(folder).release()


def test_a_folder_that_cannot_be_read_is_free_again(tmp_path: Path) -> None:
    with pytest.raises(FrazilIoError, match=f"Reading {tmp_path}: No such file"), locked(tmp_path):
        (tmp_path / "missing").read_bytes()
    lock_folder(tmp_path).release()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FrazilIoError, match=r"Opening .*/file/folder: File exists"):
        lock_folder(tmp_path / "file" / "folder")


def test_files_are_listed_from_old_to_new_and_nothing_else_is(tmp_path: Path) -> None:
    paths = [file_path(tmp_path, number, SUFFIX) for number in (10, 9, 10**12)]
    for path in (*paths, tmp_path / "lock", tmp_path / f"7{SUFFIX}", file_path(tmp_path, 3, ".other")):
        path.touch()
    assert numbered_files(tmp_path, SUFFIX) == [paths[1], paths[0], paths[2]]


def test_only_the_newest_file_is_read_and_drafts_are_deleted(tmp_path: Path) -> None:
    assert read_newest(tmp_path, SUFFIX, "first boot", ScannedNumbers) is None
    file_path(tmp_path, 1, SUFFIX).write_bytes(b"nobody reads this")
    file_path(tmp_path, 2, SUFFIX).write_bytes(content(2, 3) + b"torn")
    draft = file_path(tmp_path, 3, ".new")
    draft.write_bytes(content(9))
    newest = read_newest(tmp_path, SUFFIX, "first boot", ScannedNumbers)
    assert newest is not None
    assert (newest.numbers, newest.flaw) == ([2, 3], "4 bytes are no frame")
    assert not draft.exists()
    cut_file(newest.path, newest.clean_bytes)
    assert newest.path.read_bytes() == content(2, 3)


def test_damage_of_the_newest_file_is_raised(tmp_path: Path) -> None:
    file_path(tmp_path, 0, SUFFIX).write_bytes(flipped(content(0, 1, 2), SIZE + 9))
    with pytest.raises(LogCorrupted, match="whole frames follow"):
        read_newest(tmp_path, SUFFIX, "first boot", ScannedNumbers)
