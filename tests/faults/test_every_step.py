"""Tests a kill, an I/O error or a full disk at every single system call of a partition's life."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

CASES = [(kind, sync) for kind in ("kill", "eio", "enospc") for sync in ("periodic", "always")]


def run(kind: str, sync: str, first: int, step: int) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.every_step", kind, sync, str(first), str(step)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(("kind", "sync"), CASES)
def test_some(kind: str, sync: str, seed: int) -> None:
    assert run(kind, sync, first=1 + random.Random(seed).randrange(11), step=11) > 10


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kind", "sync"), CASES)
def test_all(kind: str, sync: str) -> None:
    assert run(kind, sync, first=1, step=1) > 200
