"""A process is killed at the given failpoint, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
from frazil.failpoints import failpoint
for _ in range(3):
    failpoint("write")
    print("written", flush=True)
    failpoint("write:sync")
"""


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [(None, 3), ("", 3), ("write", 0), ("write:1", 0), ("write:3", 2), ("write:4", 3), ("write:sync", 1), ("x", 3)],
)
def test_a_process_ends_there(wanted: str | None, lines: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "FRAZIL_FAILPOINT"}
    if wanted is not None:
        environment["FRAZIL_FAILPOINT"] = wanted
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.stdout.split() == [b"written"] * lines
    assert done.returncode == (0 if lines == 3 else -signal.SIGKILL)
