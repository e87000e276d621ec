"""The kernels find what an evaluator finds that walks the tree of each trace."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.query.traceql.engine.conditions import Condition
from frazil.query.traceql.engine.fields import filters_of
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import Pipeline
from tests.examples import examples
from tests.query.traceql.engine.slow_evaluator import SlowEvaluator, SlowSpan, traces_of
from tests.query.traceql.engine.support import answer
from tests.query.traceql.span_texts import MILLISECOND, read_spans

KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"]
values = st.sampled_from([0, 1, 2, -1, 0.5, 2.0, "a", "b", True, False, ["a", "b"], [1, 2]])
attributes = st.dictionaries(st.sampled_from("xy"), values, max_size=2)


@st.composite
def traces(draw: st.DrawFn) -> list[SlowSpan]:
    """Draws two traces. Most spans are below an earlier one; some ids repeat, and some parents are missing."""
    found = []
    for number in range(draw(st.integers(1, 14))):
        own = number + 1 if draw(st.integers(0, 9)) else draw(st.integers(1, 14))
        parent = draw(st.integers(max(0, number - 3), number) if draw(st.integers(0, 9)) else st.integers(0, 15))
        found.append(
            SlowSpan(
                trace=draw(st.sampled_from([1, 1, 1, 2])),
                id=own,
                parent=parent,
                name=draw(st.sampled_from("ab")),
                kind=draw(st.sampled_from([1, 2, 3])),
                start=draw(st.integers(0, 5)) * MILLISECOND,
                took=draw(st.integers(0, 3)) * MILLISECOND,
                attributes=draw(attributes),
                resource=draw(attributes),
            )
        )
    return found


fields = st.sampled_from([".x", "span.x", "resource.x", ".y", "span.y"])
literals = st.sampled_from(["0", "1", "2", "0.5", "2.0", "`a`", "`b`", "true"])
comparisons = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
simple = st.one_of(
    st.builds("{} {} {}".format, fields, comparisons.filter("=!=".__contains__), literals),
    st.builds("{} {} {}".format, fields, comparisons, st.sampled_from(["0", "1", "0.5", "`a`"])),
    st.builds("{} {} nil".format, fields, st.sampled_from(["=", "!="])),
    st.builds("{} {} `{}`".format, fields, st.sampled_from(["=~", "!~"]), st.sampled_from(["a|b", ".", "", "a"])),
    st.builds("{} {} {} {} 1".format, fields, st.sampled_from("+-*/%"), fields, comparisons),
    st.builds("{} {} {}".format, fields, comparisons, fields),
    st.builds("name = `{}`".format, st.sampled_from("ab")),
    st.builds("kind = {}".format, st.sampled_from(KINDS)),
    st.builds("duration {} {}ms".format, comparisons, st.integers(0, 3)),
    st.builds(
        "{} {} {}".format, st.sampled_from(["nestedSetLeft", "nestedSetParent"]), comparisons, st.integers(-1, 5)
    ),
    st.builds("traceDuration {} {}ms".format, comparisons, st.integers(0, 6)),
    st.builds("rootName = `{}`".format, st.sampled_from("ab")),
    st.sampled_from(["true", "false", "!.x", ".x"]),
)
conditions = st.recursive(
    simple,
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["&&", "||"]), inner)
        | st.builds("!({})".format, inner)
    ),
    max_leaves=4,
)
filters = st.builds("{{ {} }}".format, conditions) | st.just("{}")
SYMBOLS = ["&&", "||", ">", "<", ">>", "<<", "~", "!>", "!<", "!>>", "!<<", "!~", "&>", "&<", "&>>", "&<<", "&~"]
spansets = st.recursive(
    filters,
    lambda inner: st.builds("({}) {} ({})".format, inner, st.sampled_from(SYMBOLS), inner),
    max_leaves=3,
)
stages = st.one_of(
    filters,
    st.builds("count() {} {}".format, comparisons, st.integers(0, 4)),
    st.builds("{}(duration) {} 2ms".format, st.sampled_from(["min", "max", "avg", "sum"]), comparisons),
    st.builds("{}(.x) {} 1".format, st.sampled_from(["min", "max", "avg"]), comparisons),
    st.builds("by({}) | coalesce()".format, st.sampled_from([".x", "name", "kind"])),
    st.just("select(.x)"),
)
queries = st.builds(
    lambda first, rest, last: " | ".join([first, *rest, *last]),
    spansets,
    st.lists(stages, max_size=2),
    st.sampled_from([[], ["by(.x)"], ["by(name)", "count() > 1"]]),
)


def written(span: SlowSpan) -> str:
    words = [f"{span.trace:x}", f"{span.id:x}", f"{span.parent:x}" if span.parent else "-", f"name={span.name}"]
    words += [f"kind={KINDS[span.kind]}", f"start={span.start // MILLISECOND}", f"took={span.took // MILLISECOND}"]
    for scope, found in (("span", span.attributes), ("resource", span.resource)):
        words += [f"{scope}.{key}={json.dumps(value, separators=(',', ':'))}" for key, value in found.items()]
    return " ".join(words)


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
