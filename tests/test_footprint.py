"""Frazil's own processes do without pandas, and a user's program has it as ever."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from frazil.footprint import OWN_PROCESS

LOOK = """
import sys
import frazil
import pyarrow as pa
import pyarrow.dataset
pa.array([1, 2])
print("pandas" in sys.modules)
"""
COMMAND = """
import sys
from frazil.cli import app
app.run = lambda arguments: print("pandas" in sys.modules, __import__("os").environ["FRAZIL_PROCESS"]) or 0
app.main()
"""


def said(script: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != OWN_PROCESS}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment | variables, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize(("variables", "loaded"), [({}, "True"), ({OWN_PROCESS: "1"}, "False")])
def test_pandas_is_loaded_by_users_programs_only(variables: dict[str, str], loaded: str) -> None:
    assert said(LOOK, **variables) == loaded


def test_a_command_and_all_that_it_starts_are_frazils_own() -> None:
    assert said(COMMAND) == "False 1"
