"""Draws traces and queries at random."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from tests.query.traceql.engine.slow_evaluator import SlowSpan
from tests.query.traceql.span_texts import MILLISECOND

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
