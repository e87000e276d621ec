"""A search finds what judging all traces finds, and reads no more than it must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.query.traceql.engine.scanned_spans import ScannedSpans
from frazil.query.traceql.engine.search import FoundTraces, search
from frazil.query.traceql.engine.source import SpanBatch
from frazil.query.traceql.engine.traces import trace_texts
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import Pipeline
from frazil.scan.predicates.tree import Predicate
from tests.examples import examples
from tests.query.traceql.engine.random_queries import queries, traces, written
from tests.query.traceql.engine.slow_evaluator import SlowSpan
from tests.query.traceql.engine.support import answer, span_texts
from tests.query.traceql.memory import MemorySpans, NoBudget
from tests.query.traceql.memory_scanner import MemoryScanner
from tests.query.traceql.span_texts import BASE, MILLISECOND, read_spans

SECOND = 10**9


def pipeline_of(query: str) -> Pipeline:
    body = parse(query).body
    assert isinstance(body, Pipeline)
    return body


def shown(found: list[FoundTraces]) -> dict[str, list[list[str]]]:
    """Returns spansets by trace, in the order of the traces that were found."""
    result = {}
    for part in found:
        names, spans = trace_texts(part.traces.ids), span_texts(part.traces)
        for number in part.numbers:
            numbers = [place for place, trace in enumerate(part.sets.trace_of_set.tolist()) if trace == number]
            rows = [part.sets.rows[part.sets.set_of_row == each].tolist() for each in numbers]
            result[names[number]] = sorted(sorted(spans[row] for row in each) for each in rows)
    return result


@settings(max_examples=examples(80), deadline=None)
@given(traces(), st.lists(queries, min_size=1, max_size=5))
def test_what_is_pushed_down_leaves_nothing_out(given_spans: list[SlowSpan], asked: list[str]) -> None:
    table = read_spans("\n".join(map(written, given_spans)))
    source = ScannedSpans(MemoryScanner(table), ("tenant-0",), NoBudget())
    for query in asked:
        found = search(pipeline_of(query), source, NoBudget(), BASE - SECOND, BASE + SECOND, 10)
        assert shown(found) == answer(query, table), query


class CountedSpans(MemorySpans):
    """Counts batches, and traces that are read whole."""

    def __init__(self, table: pa.Table, unit_rows: int) -> None:
        super().__init__(table, unit_rows)
        self.read = 0
        self.asked: list[int] = []

    def batches(
        self, start_ns: int, end_ns: int, where: Predicate | None, columns: Sequence[str]
    ) -> Iterator[SpanBatch]:
        for batch in super().batches(start_ns, end_ns, where, columns):
            self.read += 1
            yield batch

    def traces(
        self, ids: Sequence[bytes], start_ns: int | None, end_ns: int | None, columns: Sequence[str]
    ) -> pa.Table:
        self.asked.append(len(ids))
        return super().traces(ids, start_ns, end_ns, columns)


def test_a_search_ends_when_no_newer_trace_can_come() -> None:
    lines = [f"{at:x} 1 - name={'even' if at % 2 == 0 else 'odd'} start={at * 10}" for at in range(1, 201)]
    source = CountedSpans(read_spans("\n".join(lines)), unit_rows=10)
    found = search(pipeline_of("{ name = `odd` }"), source, NoBudget(), BASE, BASE + 10 * SECOND, 16)
    assert list(shown(found)) == [f"{at:x}" for at in range(199, 167, -2)]
    assert source.read <= 6
    assert sum(source.asked) <= 20


def test_a_rare_span_needs_few_traces() -> None:
    lines = [f"{at:x} 1 - name={'rare' if at == 3 else 'usual'} start={at * 10}" for at in range(1, 101)]
    source = CountedSpans(read_spans("\n".join(lines)), unit_rows=10)
    found = search(
        pipeline_of("{} >> { name = `rare` } || { name = `rare` }"), source, NoBudget(), BASE, BASE + SECOND, 5
    )
    assert list(shown(found)) == ["3"]
    assert source.asked == [1]


def test_traces_that_reach_into_the_time_are_found() -> None:
    table = read_spans("1 a - name=x took=5000\n2 a - name=x start=9000\n3 a - name=x start=2000 took=1")
    for start, end, expected in ((0, 1, ["1"]), (3, 4, ["1"]), (6, 8, []), (2, 9, ["2", "3", "1"])):
        times = (BASE + start * SECOND, BASE + end * SECOND)
        assert list(shown(search(pipeline_of("{}"), MemorySpans(table), NoBudget(), *times, 10))) == expected


def test_a_span_that_is_there_twice_is_one() -> None:
    table = read_spans("1 a - name=x\n1 b a name=y start=1\n1 b a name=y start=1\n1 c a name=z start=2")
    found = search(pipeline_of("{ name = `y` }"), MemorySpans(table, 1), NoBudget(), BASE, BASE + MILLISECOND, 10)
    assert shown(found) == {"1": [["b"]]}
