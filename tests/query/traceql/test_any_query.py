"""Whatever is asked is answered, or refused with an error of TraceQL."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from frazil.query.traceql.api.search import searched_pipeline
from frazil.query.traceql.api.search_results import trace_results
from frazil.query.traceql.engine.metrics.evaluation import Question, evaluate
from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.search import search
from frazil.query.traceql.errors import TraceQLError
from frazil.query.traceql.parse.names import INTRINSICS, KEYWORDS, OPERATORS
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import MetricsOperation, MetricsQuery, SecondStages
from frazil.query.traceql.validate.check import validate
from tests.examples import examples
from tests.query.traceql.memory import MemorySpans, NoBudget
from tests.query.traceql.span_texts import BASE, read_spans

SPANS = """
1 a - name=GET service=web kind=server took=100 span.x=5 span.y=0.5 span.z=true resource.x="r" span.tags=["p","q"]
1 b a name=query service=db start=10 took=20 status=error span.x="five" event=retry@15{n=1,x="e"} link=2/a{x=1}
1 b a name=query service=db start=10 took=20 kind=client span.big=9223372036854775807 span.map={"a":1}
2 b ff name=orphan start=-5 took=-3 span.x=-9223372036854775808
"""

ATTRIBUTES = [".x", "span.y", "span.z", "resource.x", ".tags", "event.n", "event.x", "link.x", ".big", ".map", ".no"]
LITERALS = [
    "0",
    "1",
    "-1",
    "2.5",
    "`five`",
    "`.*`",
    '""',
    "true",
    "1s",
    "nil",
    "error",
    "server",
    "maxInt",
    "minInt",
    "1e300",
]
tokens = st.sampled_from([*OPERATORS, *sorted(KEYWORDS), *ATTRIBUTES, *LITERALS, "{", "}", "(", ")", "|", "'", "\\"])

values = st.sampled_from([*ATTRIBUTES, *LITERALS, *sorted(INTRINSICS)])
binary = st.sampled_from(["=", "!=", "<", ">=", "=~", "!~", "&&", "||", "+", "-", "*", "/", "%", "^"])
expressions = st.recursive(
    values,
    lambda inner: (
        st.builds("({} {} {})".format, inner, binary, inner)
        | st.builds("{}({})".format, st.sampled_from("!-"), inner)
    ),
    max_leaves=5,
)
filters = st.builds("{{ {} }}".format, expressions)
stages = st.one_of(
    filters,
    st.builds("{} {} {}".format, filters, st.sampled_from([">>", "!<", "&~", "&&", "||"]), filters),
    st.builds("by({})".format, expressions),
    st.builds("select({})".format, values),
    st.just("coalesce()"),
    st.builds("{}({}) > {}".format, st.sampled_from(["min", "max", "avg", "sum"]), expressions, values),
)
functions = st.one_of(
    st.builds("{}({}) by({})".format, st.sampled_from(["sum_over_time", "histogram_over_time"]), values, values),
    st.builds("quantile_over_time({}, 0, .5, 1)".format, values),
    st.builds("compare({})".format, filters),
    st.builds("rate() by({}) | topk(1)".format, values),
)
queries = st.builds(
    lambda first, function: " | ".join([*first, *function]),
    st.lists(stages, min_size=1, max_size=3),
    st.lists(functions, max_size=1),
)


@cache
def spans() -> pa.Table:
    return read_spans(SPANS)


def ask(text: str) -> None:
    query = parse(text)
    assert parse(str(query)) == query
    validate(query)
    source = MemorySpans(spans(), 2)
    pipeline = searched_pipeline(query)
    trace_results(search(pipeline, source, NoBudget(), BASE - 10**9, BASE + 10**9, 10), pipeline, 3)
    if isinstance(query.body, MetricsQuery | MetricsOperation | SecondStages):
        grid = Grid.over(BASE - 10**9, BASE + 10**9, 10**9)
        evaluate(query.body, Question(source, NoBudget(), grid, 5))


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(tokens, max_size=12).map(" ".join) | st.text(max_size=20))
def test_any_text_is_a_query_or_an_error(text: str) -> None:
    with suppress(TraceQLError):
        ask(text)


@settings(max_examples=examples(200), deadline=None)
@given(queries)
@example("{ .big * .big > 0 }")
@example("{} | by(event.x) | sum(.x) > -1")
@example("{} | histogram_over_time(.big) by(.x, .y)")
def test_any_query_is_answered(text: str) -> None:
    with suppress(TraceQLError):
        ask(text)
