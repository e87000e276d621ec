"""Runs the public cases of LogQL, if they are next to the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conformance import logql

_BESIDE = Path(__file__).parents[3] / "shared" / "corpora"
CASES = Path(os.environ.get("FRAZIL_CORPORA", _BESIDE)) / "logql"


@pytest.mark.skipif(not CASES.is_dir(), reason="the corpora are not next to the checkout")
def test_all_cases_pass_in_memory() -> None:
    written: list[str] = []
    assert logql.run(CASES, in_memory=True, write=written.append) == 0, "\n".join(written)
