"""Runs Prometheus's test scripts. `--engine` feeds the engine's arrays directly, which is all there is today."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from frazil.errors import FrazilError
from frazil.query.promql.engine.query import Answer, query_instant, query_range
from frazil.query.promql.evaluation.options import EngineOptions
from frazil.query.promql.types import ValueType
from tests.conformance.promql_compare import Mismatch, Points, check_annotations, check_failure, check_result
from tests.conformance.promql_script import Clear, Evaluate, Load, commands
from tests.conformance.promql_store import ScriptStore
from tests.conformance.promql_variants import asks_for_context, variants

# What Prometheus's own runner sets.
OPTIONS = EngineOptions(max_samples=10_000, delayed_names=True, start_timestamps=True)
MINUTE = 60_000


def main(directory: str, *flags: str) -> int:
    """Runs all scripts of a directory; returns 0 if everything passes."""
    unknown = [flag for flag in flags if flag != "--engine"]
    if unknown:
        raise SystemExit(f"unknown: {' '.join(unknown)}")
    passed = failed = 0
    for path in sorted(Path(directory).glob("*.test")):
        for line, problem in run_script(path.read_text()):
            if problem is None:
                passed += 1
            else:
                failed += 1
                sys.stdout.write(f"{path.name}:{line}: {problem}\n")
    sys.stdout.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else 0


def run_script(text: str) -> Iterator[tuple[int, str | None]]:
    """Runs a script; returns for each evaluation its line and what is wrong, or None."""
    store = ScriptStore()
    for command in commands(text):
        if isinstance(command, Clear):
            store = ScriptStore()
        elif isinstance(command, Load):
            store.load(command)
        else:
            try:
                evaluate(store, command)
            except Mismatch as mismatch:
                yield command.line, f"{command.query}: {mismatch}"
            except Exception as error:  # noqa: BLE001 - a broken case must not hide the cases behind it
                where = error.__traceback__
                while where and where.tb_next:
                    where = where.tb_next
                place = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where else ""
                yield command.line, f"{command.query}: {type(error).__name__} at {place}: {error}"
            else:
                yield command.line, None


def evaluate(store: ScriptStore, command: Evaluate) -> None:
    """Runs an evaluation in all the ways that Prometheus's runner does."""
    if command.range is not None and not command.expects_range_vector:
        begin, end, step = command.range
        run(command, command.query, lambda: query_range(store.source, command.query, begin, end, step, OPTIONS))
        return
    for query, moment in [(command.query, command.at), *variants(command.query, command.at)]:
        run_instant(store, command, query, moment)


def run_instant(store: ScriptStore, command: Evaluate, query: str, moment: int) -> None:
    answer = run(command, query, lambda: query_instant(store.source, query, moment, OPTIONS))
    if answer is None or command.text is not None or command.expects_range_vector or asks_for_context(query):
        return
    ranged = query_range(store.source, query, moment - MINUTE, moment + MINUTE, MINUTE, OPTIONS)
    if command.ordered:
        return
    try:
        check_result(command, Points.of(ranged).only(moment, answer.type == ValueType.SCALAR))
    except Mismatch as mismatch:
        raise Mismatch(f"in range mode of {query}: {mismatch}") from None


def run(command: Evaluate, query: str, ask: object) -> Answer | None:
    """Asks, and checks what comes; returns None if it had to fail, and did."""
    assert callable(ask)
    try:
        answer = ask()
    except FrazilError as error:
        if command.fails:
            check_failure(command, str(error))
            return None
        raise Mismatch(f"{query} fails: {error}") from None
    assert isinstance(answer, Answer)
    if command.fails:
        raise Mismatch(f"{query} does not fail")
    check_annotations(command, query, answer.warnings, answer.infos)
    try:
        check_result(command, Points.of(answer))
    except Mismatch as mismatch:
        raise Mismatch(f"{query}: {mismatch}") from None
    return answer


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
