"""Runs lists of TraceQL queries, each of which must be accepted, or be refused at a certain stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from frazil.errors import FrazilError
from frazil.query.traceql.errors import TraceQLInvalid, TraceQLSyntaxError, TraceQLUnsupported
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.validate.check import validate

STAGES: dict[str, type[FrazilError] | None] = {
    "valid": None,
    "parse_fails": TraceQLSyntaxError,
    "validate_fails": TraceQLInvalid,
    "unsupported": TraceQLUnsupported,
}
"""By the name of a list: the error with which its queries are refused."""


class Case(NamedTuple):
    file: str
    stage: str
    query: str


def cases(directory: Path) -> Iterator[Case]:
    for path in sorted(directory.rglob("*.y*ml")):
        lists = yaml.safe_load(path.read_text("utf-8"))
        for stage in STAGES:
            for query in lists.get(stage) or []:
                yield Case(path.name, stage, query)


def failure(case: Case) -> str | None:
    """Returns what is wrong with the answer to a query; None if it is right."""
    expected = STAGES[case.stage]
    try:
        query = parse(case.query)
        printed = parse(str(query))
        if printed != query or str(printed) != str(query):
            return f"is printed as {query}, which reads as {printed}"
        validate(query)
    except FrazilError as error:
        if expected is None:
            return f"is refused: {error}"
        # An error of syntax comes from `parse`, the others from `validate`.
        return None if type(error) is expected else f"is refused with {type(error).__name__}: {error}"
    return None if expected is None else f"is accepted, and not refused with {expected.__name__}"


def main(directory: Path) -> int:
    """Prints a line for each failure, then the numbers. Returns the exit code."""
    failures, passed = 0, 0
    for case in cases(directory):
        wrong = failure(case)
        if wrong is None:
            passed += 1
            continue
        failures += 1
        print(f"{case.file} {case.stage}: {case.query!r} {wrong}")  # noqa: T201
    print(f"{passed} passed, {failures} failed")  # noqa: T201
    return 1 if failures else 0
