"""Runs Prometheus's test scripts: samples come by remote write, half of them are moved into the table, and queries
read both. `--engine` feeds the engine's arrays directly."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from frazil.errors import FrazilError
from frazil.query.promql.engine.query import Answer, query_instant, query_range
from frazil.query.promql.evaluation.options import EngineOptions
from frazil.query.promql.series.source import SampleSource
from frazil.query.promql.types import ValueType
from tests.conformance.promql_compare import Mismatch, Points, check_annotations, check_failure, check_result
from tests.conformance.promql_script import Clear, Evaluate, Load, commands
from tests.conformance.promql_store import ScriptStore
from tests.conformance.promql_variants import asks_for_context, variants
from tests.conformance.promql_written import Stored

# What Prometheus's own runner sets.
OPTIONS = EngineOptions(max_samples=10_000, delayed_names=True, start_timestamps=True)
MINUTE = 60_000


Outcome = tuple[int, str | None]
"""The line of an evaluation, and what is wrong, or None."""


def main(directory: Path, *flags: str) -> int:
    """Runs all scripts of a directory; returns 0 if everything passes."""
    unknown = [flag for flag in flags if flag != "--engine"]
    if unknown:
        raise SystemExit(f"unknown: {' '.join(unknown)}")
    paths = sorted(directory.glob("*.test"))
    if not paths:
        raise SystemExit(f"no scripts in {directory}")
    texts = [path.read_text() for path in paths]
    passed = failed = 0
    with TemporaryDirectory() as folder:
        outcomes = map(run_script, texts) if "--engine" in flags else run_stored(texts, Path(folder))
        for path, of_script in zip(paths, outcomes, strict=True):
            for line, problem in of_script:
                if problem is None:
                    passed += 1
                else:
                    failed += 1
                    sys.stdout.write(f"{path.name}:{line}: {problem}\n")
    sys.stdout.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else 0


def run_script(text: str) -> Iterator[Outcome]:
    """Runs a script on samples in memory."""
    for command, store, _ in evaluations(text):
        yield outcome(command, store.source)


def run_stored(texts: Sequence[str], folder: Path, seed: int = 0) -> Iterator[list[Outcome]]:
    """Runs scripts on samples in table and log, those of all scripts together; yields the outcomes of each script."""
    with Stored(folder, seed) as stored:
        numbers = [list(numbered(text, stored)) for text in texts]
        stored.write()
        for script in numbers:
            yield [outcome(command, stored.source(number)) for command, number in script]


def numbered(text: str, stored: Stored) -> Iterator[tuple[Evaluate, int]]:
    """Yields the evaluations of a script, each with the number of the set of series that it sees."""
    states: dict[int, int] = {}
    for command, store, state in evaluations(text):
        if state not in states:
            states[state] = stored.add(store.written)
        yield command, states[state]


def evaluations(text: str) -> Iterator[tuple[Evaluate, ScriptStore, int]]:
    """Yields the evaluations of a script, each with what is loaded by then, and a number that tells whether that is
    the same as before."""
    store, state = ScriptStore(), 0
    for command in commands(text):
        if isinstance(command, Clear):
            store, state = ScriptStore(), state + 1
        elif isinstance(command, Load):
            store.load(command)
            state += 1
        else:
            yield command, store, state


def outcome(command: Evaluate, source: SampleSource) -> Outcome:
    try:
        evaluate(source, command)
    except Mismatch as mismatch:
        return command.line, f"{command.query}: {mismatch}"
    except Exception as error:  # noqa: BLE001 - a broken case must not hide the cases behind it
        where = error.__traceback__
        while where and where.tb_next:
            where = where.tb_next
        place = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where else ""
        return command.line, f"{command.query}: {type(error).__name__} at {place}: {error}"
    return command.line, None


def evaluate(source: SampleSource, command: Evaluate) -> None:
    """Runs an evaluation in all the ways that Prometheus's runner does."""
    if command.range is not None and not command.expects_range_vector:
        begin, end, step = command.range
        run(command, command.query, lambda: query_range(source, command.query, begin, end, step, OPTIONS))
        return
    for query, moment in [(command.query, command.at), *variants(command.query, command.at)]:
        run_instant(source, command, query, moment)


def run_instant(source: SampleSource, command: Evaluate, query: str, moment: int) -> None:
    answer = run(command, query, lambda: query_instant(source, query, moment, OPTIONS))
    if answer is None or command.text is not None or command.expects_range_vector or asks_for_context(query):
        return
    ranged = query_range(source, query, moment - MINUTE, moment + MINUTE, MINUTE, OPTIONS)
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
