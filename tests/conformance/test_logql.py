"""Runs the public cases of LogQL, if they are next to the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conformance import logql

_BESIDE = Path(__file__).parents[3] / "shared" / "corpora"
CASES = Path(os.environ.get("FRAZIL_CORPORA", _BESIDE)) / "logql"


@pytest.mark.skipif(not CASES.is_dir(), reason="the corpora are not next to the checkout")
@pytest.mark.parametrize("in_memory", [True, False], ids=["in memory", "from table and log"])
def test_all_cases_pass(in_memory: bool) -> None:
    written: list[str] = []
    assert logql.run(CASES, in_memory=in_memory, write=written.append) == 0, "\n".join(written)
