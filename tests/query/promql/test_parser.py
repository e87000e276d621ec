"""Queries become trees that print themselves back, or errors that say where."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.query.promql.parse import ParserOptions, parse, parse_metric, parse_selector
from frazil.query.promql.parse.pretty import pretty
from frazil.query.promql.parse.tree import Binary, Matcher, NumberLiteral, VectorSelector
from frazil.query.promql.problems import ParseError

PRINTED = {
    "1e3": "1000",
    "0x10 + 017": "16 + 15",
    "1_000": "1000",
    "5m": "5m",
    "+1": "1",
    "-1 ^ 2": "-1 ^ 2",
    "2^3^2": "2 ^ 3 ^ 2",
    "foo{b='x', a!~\"y\",}": 'foo{a!~"y",b="x"}',
    '{"my.metric", "a label"="b"}': '{"a label"="b",__name__="my.metric"}',
    "sum(x) by (b, a)": "sum by (b, a) (x)",
    "SUM without () (x)": "sum without () (x)",
    "topk by (a) (3, x)": "topk by (a) (3, x)",
    "x[90m] offset 1.5": "x[1h30m] offset 1s500ms",
    "rate(x[5m] anchored @ 10 offset 5m)": "rate(x[5m] anchored @ 10.000 offset 5m)",
    "x offset 5m @ start()": "x @ start() offset 5m",
    "max_over_time(x[1h:] @ end())": "max_over_time(x[1h:] @ end())",
    "x[5m+step()*2:1m]": "x[5m + step() * 2:1m]",
    "x offset -(1m+2m)": "x offset -(1m + 2m)",
    "a + on(x) group_left(y) b": "a + on (x) group_left (y) b",
    "a > bool ignoring() b": "a > bool b",
    "a + on() fill_left(1) fill_right(2) b": "a + on () fill_left (1) fill_right (2) b",
    "a </ 5 >/ 1": "a </ 5 >/ 1",
    "fill + offset": "fill + offset",
    "a # comment\n + b": "a + b",
    "info(a, {b=~`.+`})": 'info(a, {b=~".+"})',
    '"a\\x41\\101\\u00e9"': '"aAAé"',
}

REFUSED = {
    "": "unknown position: parse error: no expression found in input",
    "foo bar": '1:5: parse error: unexpected identifier "bar"',
    "sum(\n  abs(1)\n)": '2:7: parse error: expected type instant vector in call to function "abs", got scalar',
    "foo{a}": '1:6: parse error: unexpected "}" in label matching, expected label matching operator',
    "foo[5m": "1:7: parse error: unclosed left bracket",
    "{}": "1:1: parse error: vector selector must contain at least one non-empty matcher",
    "é + é": "1:1: parse error: unexpected character: 'é'",
    '"é" + $': "1:8: parse error: unexpected character: '$'",
    "1 == 2": "1:3: parse error: comparisons between scalars must use BOOL modifier",
    "a and on(x) group_left b": '1:1: parse error: no grouping allowed for "and" operation',
    "foo offset 5m offset 5m": "1:1: parse error: offset may not be set multiple times",
    'foo{a=~"("}': "1:5: parse error: error parsing regexp: missing closing ): `(`",
    "abs(x,)": "1:6: parse error: trailing commas not allowed in function call args",
    "foo[1/0]": "1:6: parse error: division by zero",
    "nope(x)": '1:1: parse error: unknown function with name "nope"',
    "x[5m:1m] anchored": "1:1: parse error: anchored modifier is not supported for subqueries",
    "1__0": '1:1: parse error: bad number or duration syntax: "1__"',
    '"abc': "1:1: parse error: unterminated quoted string",
}

WORDS = [
    *("foo", "a:b", "sum", "by", "without", "rate", "topk", "on", "ignoring", "group_left", "bool", "offset", "@"),
    *("(", ")", "{", "}", "[", "]", ",", "=", "=~", "!=", "==", "+", "-", "*", "^", "</", "and", "or", "unless"),
    *(
        '"x"',
        "'y'",
        "`z`",
        "5m",
        "1",
        "0x1f",
        "1e",
        ".5",
        "start()",
        "step()",
        "fill",
        "smoothed",
        "#",
        "\n",
        "é",
        ":",
    ),
]


@pytest.mark.parametrize("query", PRINTED)
def test_trees_print_themselves_back(query: str) -> None:
    assert str(parse(query)) == PRINTED[query]
    assert parse(PRINTED[query]) == parse(str(parse(PRINTED[query])))


@pytest.mark.parametrize("query", REFUSED)
def test_errors_say_where(query: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(query)
    assert str(caught.value) == REFUSED[query]


def test_long_queries_are_printed_over_lines() -> None:
    query = (
        "sum by (job) (rate(requests_total[5m])) / on (job) group_left () sum by (job) (rate(all_requests_total[5m]))"
    )
    assert pretty(parse(query)) == (
        "  sum by (job) (rate(requests_total[5m]))\n"
        "/ on (job) group_left ()\n"
        "  sum by (job) (rate(all_requests_total[5m]))"
    )
    assert parse(pretty(parse(query))) == parse(query)


def test_operators_bind_as_in_arithmetic() -> None:
    tree = parse("a or b and c == d + e * f")
    assert isinstance(tree, Binary)
    assert tree.op == "or"
    assert [str(tree.left), str(tree.right)] == ["a", "b and c == d + e * f"]
    assert parse("-2 * 3").children().__next__() == NumberLiteral(-2.0)


def test_selectors_and_metrics() -> None:
    assert parse_selector('up{job=~"a|b"}') == [Matcher("job", "=~", "a|b"), Matcher("__name__", "=", "up")]
    assert parse_metric('up{job="a"}') == {"__name__": "up", "job": "a"}
    with pytest.raises(ParseError):
        parse_selector("rate(up[5m])")


def test_parts_of_the_language_can_be_disabled() -> None:
    strict = ParserOptions(experimental_functions=False, extended_ranges=False)
    with pytest.raises(ParseError, match='function "info" is not enabled'):
        parse("info(x)", strict)
    with pytest.raises(ParseError, match="anchored modifier is experimental and not enabled"):
        parse("x[5m] anchored", strict)


def test_positions_and_deep_nesting() -> None:
    tree = parse("a +  bcd")
    assert isinstance(tree, Binary)
    assert isinstance(tree.right, VectorSelector)
    assert (tree.right.start, tree.right.end) == (5, 8)
    with pytest.raises(ParseError, match="nested"):
        parse("(" * 500 + "a" + ")" * 500)
    with pytest.raises(ParseError, match="nested"):
        parse("x[" + "-" * 500 + "5m]")
    with pytest.raises(ParseError, match="nested"):
        parse("x[" + "1+" * 500 + "5m]")
    with pytest.raises(ParseError, match="levels"):
        parse(" + ".join(["x"] * 500))
    with pytest.raises(ParseError, match="levels"):
        # It is refused before what is wrong behind it is read.
        parse(" + ".join(["x"] * 500) + "(")
    with pytest.raises(ParseError, match="levels"):
        parse("x" + "[5m:1m]" * 500)


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join) | st.text(max_size=30))
def test_any_text_is_a_tree_or_an_error_with_a_position(text: str) -> None:
    begin = time.monotonic()
    try:
        printed = str(parse(text))
    except ParseError as error:
        problem = error
    else:
        assert str(parse(printed)) == printed
        assert str(parse(pretty(parse(text)))) == printed
        return
    finally:
        assert time.monotonic() - begin < 1
    assert problem.line is not None or not text
