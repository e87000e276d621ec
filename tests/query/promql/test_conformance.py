"""Runs Prometheus's own test scripts where they lie beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conformance.promql import run_script

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("FRAZIL_PROMQL_CORPUS", ROOT.parent / "shared" / "corpora" / "promql"))
SCRIPTS = sorted(CORPUS.glob("*.test")) if CORPUS.is_dir() else []

SCRIPT = """
load 1m
  requests_total{job="a"} 0+10x10
  requests_total{job="b"} 0+20x10 _ stale
  sizes {{schema:0 sum:5 count:4 buckets:[1 2 1]}}+{{schema:0 sum:5 count:4 buckets:[1 2 1]}}x10

eval instant at 5m sum(rate(requests_total[5m]))
  expect no_warn
  {} 0.5

eval range from 0 to 2m step 1m requests_total{job="a"}
  requests_total{job="a"} 0 10 21

eval instant at 5m histogram_count(sizes)
  {} 24

eval instant at 5m requests_total + on() requests_total
  expect fail regex:many-to-many
"""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_of_prometheus_pass(script: Path) -> None:
    failures = [f"{script.name}:{line}: {problem}" for line, problem in run_script(script.read_text()) if problem]
    assert not failures, "\n".join(failures)


def test_the_runner_finds_what_is_wrong() -> None:
    outcomes = list(run_script(SCRIPT))
    assert [problem is None for _, problem in outcomes] == [True, False, True, True]
    assert "expected 21" in str(outcomes[1][1])
