"""Local files of tables are on disk when they are closed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.lake.catalog.durable_io import DurableFileIO
from frazil.lake.catalog.lake import Lake
from tests.lake.support import local_config, make_base_table


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in order."""
    paths: list[str] = []
    real = os.fsync

    def noting(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr("frazil.disk.durable.os.fsync", noting)
    return paths


def test_a_file_and_its_folders_are_synced_before_close_returns(tmp_path: Path, synced: list[str]) -> None:
    path = tmp_path / "a" / "b" / "file"
    with DurableFileIO().new_output(f"file://{path}").create() as stream:
        stream.write(b"content")
        assert str(path) not in synced
    assert path.read_bytes() == b"content"
    assert synced[-2:] == [str(path), str(path.parent)]
    assert {str(tmp_path), str(tmp_path / "a")} <= set(synced)


def test_a_file_is_created_once(tmp_path: Path) -> None:
    location = f"file://{tmp_path}/file"
    files = DurableFileIO()
    with files.new_output(location).create() as stream:
        stream.write(b"first")
    with pytest.raises(FileExistsError):
        files.new_output(location).create()
    with files.new_output(location).create(overwrite=True) as stream:
        stream.write(b"second")
    assert (tmp_path / "file").read_bytes() == b"second"
    assert files.new_input(location).open().read() == b"second"


def test_all_files_that_a_commit_names_are_synced(tmp_path: Path, synced: list[str]) -> None:
    table = make_base_table(Lake(local_config(tmp_path)))
    snapshot = table.current_snapshot()
    assert snapshot
    for location in (table.metadata_location, snapshot.manifest_list):
        assert location.removeprefix("file://") in synced
