"""Runs Prometheus's own test scripts where they lie beside the checkout."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.conformance.promql import Outcome, run_script, run_stored

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("FRAZIL_PROMQL_CORPUS", ROOT.parent / "shared" / "corpora" / "promql"))
SCRIPTS = sorted(CORPUS.glob("*.test")) if CORPUS.is_dir() else []

SMALL = 12_000
"""Scripts of fewer bytes run in a few seconds, wherever their samples are."""

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


@pytest.mark.skipif(not SCRIPTS, reason="The scripts of Prometheus do not lie beside the checkout.")
def test_scripts_pass_on_samples_in_table_and_log(tmp_path: Path) -> None:
    seed = int(os.environ.get("FRAZIL_TEST_SEED") or 0)
    small = [script for script in SCRIPTS if script.stat().st_size < SMALL]
    chosen = random.Random(seed).sample(small, 2)
    check(chosen, run_stored([script.read_text() for script in chosen], tmp_path, seed))


@pytest.mark.soak
@pytest.mark.skipif(not SCRIPTS, reason="The scripts of Prometheus do not lie beside the checkout.")
def test_all_scripts_pass_on_samples_in_table_and_log(tmp_path: Path) -> None:
    seed = int(os.environ.get("FRAZIL_TEST_SEED") or 0)
    check(SCRIPTS, run_stored([script.read_text() for script in SCRIPTS], tmp_path, seed))


def check(scripts: Sequence[Path], outcomes: Iterable[Sequence[Outcome]]) -> None:
    failures = [
        f"{script.name}:{line}: {problem}"
        for script, found in zip(scripts, outcomes, strict=True)
        for line, problem in found
        if problem
    ]
    assert not failures, "\n".join(failures)


def test_the_runner_finds_what_is_wrong() -> None:
    outcomes = list(run_script(SCRIPT))
    assert [problem is None for _, problem in outcomes] == [True, False, True, True]
    assert "expected 21" in str(outcomes[1][1])
