"""Runs the cases of LogQL."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from frazil.query.logql.engine import Engine
from tests.conformance.logql_check import failure_of
from tests.conformance.logql_memory import memory_source
from tests.conformance.logql_script import Case, cases_of
from tests.conformance.logql_stored import ZERO_NS, with_stored_lines


def main(directory: Path, *options: str) -> int:
    """Runs all cases of a folder from log and table, or with `--memory` from arrays given to the engine."""
    if unknown := set(options) - {"--memory"}:
        raise SystemExit(f"unknown: {' '.join(sorted(unknown))}")
    return run(directory, in_memory="--memory" in options, write=_write)


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(directory: Path, *, in_memory: bool, write: Callable[[str], None]) -> int:
    """Runs all cases, writes a line for each failure, and returns the exit code."""
    cases = [case for path in sorted(directory.glob("*.logqltest")) for case in cases_of(path)]
    reasons = [_in_memory(case) for case in cases] if in_memory else _stored(cases)
    for case, reason in zip(cases, reasons, strict=True):
        if reason:
            write(f"{case.place}: {case.query}: {reason}")
    failed = sum(map(bool, reasons))
    write(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


def _in_memory(case: Case) -> str:
    return failure_of(case, Engine(memory_source(case.lines)), 0)


def _stored(cases: list[Case]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        return with_stored_lines(cases, Path(folder), lambda case, source: failure_of(case, Engine(source), ZERO_NS))
