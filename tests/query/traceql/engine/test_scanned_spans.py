"""Spans in table, segments and tail give the same answers as spans in memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.formats.otlp.spans import SCHEMA, TOPIC
from frazil.query.traceql.engine.metrics.evaluation import Question, evaluate
from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.scanned_spans import MANY, ScannedSpans
from frazil.query.traceql.engine.search import search
from frazil.query.traceql.engine.traces import assemble, trace_texts
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import MetricsQuery, Pipeline
from frazil.scan.scanner import TopicScanner
from tests.lake.support import local_config
from tests.query.support import World
from tests.query.traceql.engine.metrics_support import samples_of
from tests.query.traceql.memory import NoBudget
from tests.query.traceql.memory_scanner import MemoryScanner
from tests.query.traceql.span_texts import BASE, read_spans, trace_id

SPANS = "\n".join(
    f"{trace:x} {span:x} {span - 1 if span > 1 else '-'} name={'root' if span == 1 else f'step-{span}'} "
    f"service={'web' if span == 1 else 'db'} start={trace * 100 + span} took={span * 3} "
    f'status={"error" if (trace + span) % 5 == 0 else "ok"} span.number={trace * span} span.text="t{trace % 3}" '
    f"event=seen@{trace * 100 + span + 1}{{n={span}}}"
    for span in range(1, 5)
    for trace in range(1, 13)
)
"""The spans of a trace do not come together: some are in the table while others are not."""
SEARCHES = [
    "{}",
    '{ resource.service.name = "db" && duration > 6ms }',
    "{ status = error }",
    '{ span.text = "t1" } >> { name = "step-4" }',
    "{ span.number = 12 }",
    '{ .text =~ "t[12]" } | by(status) | count() > 1',
    "{ event.n = 3 }",
    "{ name = `root` } !> { status = error }",
    "{ traceDuration > 13ms && rootServiceName = `web` }",
    "{ .number != nil && .text != `t1` && span.none = nil }",
    "{ kind = unspecified && name != `root` } | select(.number)",
]
METRICS = [
    "{} | rate() by(resource.service.name)",
    "{ status = error } | count_over_time()",
    "{} | quantile_over_time(duration, 0.5, 0.9) by(name)",
    "{ name = `root` } >> { status = error } | sum_over_time(span.number)",
]
TENANTS = ("tenant-0",)


def found(source: ScannedSpans, query: str, limit: int = 100) -> list[tuple[str, int]]:
    """Returns the traces that are found, with the number of spans in their spansets."""
    pipeline = parse(query).body
    assert isinstance(pipeline, Pipeline)
    answer = search(pipeline, source, NoBudget(), BASE - 10**9, BASE + 10**10, limit)
    return [
        (trace_texts(part.traces.ids)[number], int((part.sets.trace_of_set[part.sets.set_of_row] == number).sum()))
        for part in answer
        for number in part.numbers
    ]


def measured(source: ScannedSpans, query: str) -> dict[str, list[float | None]]:
    metrics = parse(query).body
    assert isinstance(metrics, MetricsQuery)
    return samples_of(evaluate(metrics, Question(source, NoBudget(), Grid.over(BASE, BASE + 2 * 10**9, 10**8), 0)))


@pytest.fixture(scope="module")
def spans() -> pa.Table:
    return read_spans(SPANS)


@pytest.mark.parametrize(("moved", "sealed"), [(0, 0), (48, 48), (16, 32)])
def test_wherever_spans_are_the_answer_is_the_same(tmp_path: Path, spans: pa.Table, moved: int, sealed: int) -> None:
    expected = ScannedSpans(MemoryScanner(spans), TENANTS, NoBudget())
    with World(tmp_path) as world:
        world.fill(TOPIC, spans.combine_chunks().to_batches()[0], moved, sealed)
        scanner = TopicScanner(world.config)
        source = ScannedSpans(scanner, TENANTS, NoBudget())
        for query in SEARCHES:
            assert found(source, query) == found(expected, query), query
            assert found(source, query, 3) == found(expected, query)[:3], query
        for query in METRICS:
            assert measured(source, query) == measured(expected, query), query
        many = [trace_id(f"{number:x}") for number in range(1, MANY + 10)]
        for ids in (many, many[:3]):
            traces = assemble(source.traces(ids, None, None, SCHEMA.names))
            assert (traces.trace_count, traces.count) == (min(len(ids), 12), 4 * min(len(ids), 12))
        assert found(ScannedSpans(scanner, ("tenant-1",), NoBudget()), "{}") == []
        scanner.close()


def test_a_lookup_says_what_it_left_out(tmp_path: Path, spans: pa.Table) -> None:
    with World(tmp_path) as world:
        for start in (0, 16, 32):
            world.append(TOPIC, spans.slice(start, 16).combine_chunks().to_batches()[0])
            world.seal(TOPIC)
            world.move(TOPIC)
        scanner = TopicScanner(world.config)
        source = ScannedSpans(scanner, TENANTS, NoBudget())
        ids = [trace_id("1")]
        whole = source.lookup(ids, None, None, SCHEMA.names, most_bytes=10**6, most_files=3)
        assert (len(whole.table), whole.too_large, whole.files_unread) == (4, False, 0)
        bounded = source.lookup(ids, None, None, SCHEMA.names, most_files=2)
        assert (len(bounded.table) < 4, bounded.too_large, bounded.files_unread) == (True, False, 1)
        cut = source.lookup(ids, None, None, SCHEMA.names, most_bytes=1)
        assert (len(cut.table), cut.too_large) == (0, True)
        scanner.close()


def test_before_the_first_span_nothing_is_found(tmp_path: Path) -> None:
    scanner = TopicScanner(local_config(tmp_path))
    source = ScannedSpans(scanner, TENANTS, NoBudget())
    assert found(source, "{}") == []
    assert assemble(source.traces([trace_id("1")], None, None, SCHEMA.names)).count == 0
    assert measured(source, "{} | rate()") == {"__name__=rate": [0.0] * 21}
    scanner.close()
