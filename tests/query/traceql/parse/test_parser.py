"""What a text means shows in how its tree prints itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.query.traceql.parse.durations import format_duration, parse_duration
from frazil.query.traceql.parse.names import INTRINSICS, KINDS, SCOPES, STATUSES, STRUCTURAL, Type
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import (
    Attribute,
    Binary,
    Filter,
    Intrinsic,
    Pipeline,
    Query,
    SpansetOperation,
    Static,
    Unary,
)
from tests.examples import examples


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("{}", "{ true }"),
        ("{ 3 + 4 = .a }", "{ 7 = .a }"),
        ("{ .a = -1 }", "{ .a = -1 }"),
        ("{ .a || .b && .c }", "{ (.a || .b) && .c }"),
        ("{ !.a = true }", "{ (!.a) = true }"),
        ("{ -.a * 2 = 1 }", "{ (-(.a * 2)) = 1 }"),
        ("{ .a ^ .b ^ 2 = 1 }", "{ (.a ^ (.b ^ 2)) = 1 }"),
        ("{ .a-1 = 2 }", "{ .a-1 = 2 }"),
        ("{ .a - 1 = 2 }", "{ (.a - 1) = 2 }"),
        ('{ span.http."method" = `x` }', "{ span.http.method = `x` }"),
        ("{ .a } // comment", "{ .a }"),
        ("{ /* a\ncomment */ .a }", "{ .a }"),
        ("{.a} > {.b} > {.c}", "({ .a } > { .b }) > { .c }"),
        ("{.a} || {.b} && {.c}", "({ .a } || { .b }) && { .c }"),
        ("{ duration > 90s }", "{ duration > 1m30s }"),
        ("{ duration > 1d }", "{ duration > 24h0m0s }"),
        ("{ duration > 580.3ms }", "{ duration > 580.3ms }"),
        ("{ duration > .5s }", "{ duration > 500ms }"),
        ("{ duration > 1s30ms }", "{ duration > 1.03s }"),
        ("{ duration > 5ns }", "{ duration > 5ns }"),
        ("{ .a = 1. }", "{ .a = 1.0 }"),
        ("{ .a = 1e3 }", "{ .a = 1000.0 }"),
        ("{ .a = 1e-7 }", "{ .a = 0.0000001 }"),
        ("{ .a = minInt }", "{ .a = minInt }"),
        ("{ .a = maxInt }", "{ .a = 9223372036854775807 }"),
        ("{ span:duration > 1s && trace:rootService = `a` }", "{ (duration > 1s) && (rootServiceName = `a`) }"),
        ("{ nil = .a }", "{ nil = .a }"),
        ("{} | count( ) > 2 | by(.a) | coalesce()", "{ true } | count() > 2 | by(.a) | coalesce()"),
        ("{} | rate() by(span.a, name) with(sample=true)", "{ true } | rate() by(span.a, name) with(sample=true)"),
        ("({} | rate()) * 100 > 5 | topk(3)", "({ true } | rate()) * 100 > 5 | topk(3)"),
        ("3 / 2 + ({} | rate())", "1 + ({ true } | rate())"),
        (
            "{} | compare({status=error}, 10, 1, 2)",
            "{ true } | compare({ status = error }, 10, 1, 2)",
        ),
    ],
)
def test_trees_print_themselves(text: str, printed: str) -> None:
    tree = parse(text)
    assert str(tree) == printed
    assert parse(printed) == tree


texts = st.text(max_size=6)
literals = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda n: Static(Type.INT, n)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda f: Static(Type.FLOAT, f)),
    st.integers(0, 2**62).map(lambda n: Static(Type.DURATION, n)),
    texts.map(lambda text: Static(Type.STRING, text)),
    st.sampled_from(STATUSES).map(lambda word: Static(Type.STATUS, word)),
    st.sampled_from(KINDS).map(lambda word: Static(Type.KIND, word)),
)
fields = st.one_of(
    st.builds(Attribute, st.sampled_from(["", *SCOPES]), texts.filter(bool)),
    st.sampled_from(sorted(set(INTRINSICS) - {"parent"})).map(Intrinsic),
)


def _larger(inner: Any) -> Any:
    operators = st.sampled_from(["&&", "||", "=", "!=", "<", ">=", "=~", "!~", "+", "-", "*", "/", "%", "^"])
    return st.builds(Binary, operators, fields, inner) | st.builds(Binary, operators, inner, fields)


expressions = st.recursive(fields | st.builds(Unary, st.sampled_from("!-"), fields), _larger, max_leaves=6)
filters = st.builds(Filter, expressions | st.builds(Binary, st.just("="), fields, literals))
spansets = st.recursive(
    filters, lambda inner: st.builds(SpansetOperation, st.sampled_from(["&&", "||", *STRUCTURAL]), inner, inner)
)


@settings(max_examples=examples(150))
@given(spansets)
def test_what_a_tree_prints_reads_as_the_same_tree(spanset: Filter | SpansetOperation) -> None:
    tree = Query(Pipeline((spanset,)))
    assert parse(str(tree)) == tree


@settings(max_examples=examples(100))
@given(st.integers(0, 2**63 - 1))
def test_durations_come_back(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds
