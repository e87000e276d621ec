from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.log.check.wal_cases import fill


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean partition. Tests that damage it work on a copy."""
    folder = tmp_path_factory.mktemp("sound")
    fill(folder)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "copy")
    return tmp_path / "copy"
