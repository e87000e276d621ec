"""Runs the cases of answers: spans as text, queries, and what they find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from frazil.query.traceql.errors import TraceQLInvalid, TraceQLUnsupported
from tests.query.traceql.engine.support import answer
from tests.query.traceql.span_texts import read_spans

CASES = Path(__file__).parent / "cases"


class Case(NamedTuple):
    spans: pa.Table
    query: str
    expected: dict[str, list[list[str]]]


def cases(path: Path) -> Iterator[Case]:
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip() and not line.startswith("#")]
    spans = read_spans("\n".join(line for line in lines if line[0] not in "?="))
    case: Case | None = None
    for line in lines:
        if line.startswith("?"):
            if case is not None:
                yield case
            case = Case(spans, line[1:].strip(), {})
        elif line.startswith("=") and case is not None:
            trace, _, sets = line[1:].partition(":")
            case.expected[trace.strip()] = sorted(each.split() for each in sets.split("|"))
    if case is not None:
        yield case


ALL = {f"{path.stem}: {case.query}": case for path in sorted(CASES.glob("*.txt")) for case in cases(path)}


@pytest.mark.parametrize("name", ALL)
def test_a_query_finds_its_spans(name: str) -> None:
    assert answer(ALL[name].query, ALL[name].spans) == ALL[name].expected


def test_structure_needs_one_spanset_for_each_trace() -> None:
    with pytest.raises(TraceQLInvalid, match="consider using coalesce"):
        answer("{} | by(name) | {} >> {}", read_spans("1 a - name=x\n1 b a name=y"))


def test_events_and_links_are_not_compared_with_each_other() -> None:
    with pytest.raises(TraceQLUnsupported, match="event and link attributes"):
        answer("{ event.a = link.b }", read_spans("1 a - name=x"))
