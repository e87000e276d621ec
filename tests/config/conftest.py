from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory has no `frazil.yaml` but the one that a test puts there."""
    monkeypatch.chdir(tmp_path)
