"""Runs the cases of LogQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from frazil.query.logql.engine import Engine
from tests.conformance.logql_check import failure_of
from tests.conformance.logql_memory import memory_source
from tests.conformance.logql_script import Case, cases_of


def run(directory: Path, *, in_memory: bool, write: Callable[[str], None]) -> int:
    """Runs all cases, writes a line for each failure, and returns the exit code."""
    cases = [case for path in sorted(directory.glob("*.logqltest")) for case in cases_of(path)]
    failures = 0
    for case in cases:
        if reason := _failure(case):
            failures += 1
            write(f"{case.place}: {case.query}: {reason}")
    write(f"{len(cases) - failures} passed, {failures} failed")
    return 1 if failures or not cases else 0


def _failure(case: Case) -> str:
    return failure_of(case, Engine(memory_source(case.lines)), 0)
