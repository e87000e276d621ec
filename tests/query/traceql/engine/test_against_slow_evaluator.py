"""The kernels find what an evaluator finds that walks the tree of each trace."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.query.traceql.engine.conditions import Condition
from frazil.query.traceql.engine.fields import filters_of
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import Pipeline
from tests.examples import examples
from tests.query.traceql.engine.random_queries import queries, traces, written
from tests.query.traceql.engine.slow_evaluator import SlowEvaluator, SlowSpan, traces_of
from tests.query.traceql.engine.support import answer
from tests.query.traceql.span_texts import read_spans


def slow_answer(query: str, given_spans: list[SlowSpan]) -> dict[str, list[list[str]]]:
    pipeline = parse(query).body
    assert isinstance(pipeline, Pipeline)
    found: dict[str, list[list[str]]] = {}
    for trace, its_spans in traces_of(given_spans).items():
        sets = _SlowPipeline(its_spans).run(pipeline, [its_spans])
        if sets:
            found[f"{trace:x}"] = sorted(sorted(f"{span.id:x}" for span in spans) for spans in sets)
    return found


class _SlowPipeline(SlowEvaluator):
    """Knows which attributes each filter compares with one type only."""

    def __init__(self, trace: list[SlowSpan]) -> None:
        super().__init__(trace, set())

    def spanset(self, node: Any, spans: list[SlowSpan]) -> list[SlowSpan]:
        if len(filters := list(filters_of(node))) == 1:
            self.exact = {str(field) for field in Condition(filters[0].expression).exact}
        return super().spanset(node, spans)


@settings(max_examples=examples(120), deadline=None)
@given(traces(), st.lists(queries, min_size=1, max_size=6))
def test_the_kernels_find_what_the_slow_evaluator_finds(given_spans: list[SlowSpan], asked: list[str]) -> None:
    table = read_spans("\n".join(map(written, given_spans)))
    for query in asked:
        assert answer(query, table) == slow_answer(query, given_spans), query
