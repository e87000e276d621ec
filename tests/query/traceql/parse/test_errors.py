"""Errors of syntax say where they are and what was found."""

from __future__ import annotations

import pytest

from frazil.query.traceql.errors import TraceQLError, TraceQLSyntaxError
from frazil.query.traceql.parse.parser import MAX_BYTES, parse, parse_attribute
from frazil.query.traceql.parse.tree import Attribute, Intrinsic


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "parse error : syntax error: unexpected $end"),
        ("{", "parse error at line 1, col 2: syntax error: unexpected $end"),
        ("{ } }", "parse error at line 1, col 5: syntax error: unexpected }"),
        ("{ .a == 1 }", "parse error at line 1, col 7: syntax error: unexpected ="),
        ("{ a = 1 }", "parse error at line 1, col 3: unknown identifier: a"),
        ("{ .b = 'x' }", "parse error at line 1, col 8: unknown identifier: 'x'"),
        ("{}\n|\n  foo()", "parse error at line 3, col 3: syntax error: unexpected IDENTIFIER"),
        ("{} | rate(1)", "parse error at line 1, col 11: syntax error: unexpected INTEGER, expecting )"),
        (
            "{} | rate() | foo()",
            "parse error at line 1, col 15: syntax error: unexpected IDENTIFIER, expecting topk or bottomk",
        ),
        ("{} > 1", "parse error at line 1, col 6: syntax error: unexpected INTEGER, expecting { or ("),
        ("{} with ()", "parse error at line 1, col 10: syntax error: unexpected ), expecting IDENTIFIER"),
        ("{ nil }", "parse error at line 1, col 7: syntax error: unexpected }, expecting = or !="),
        ("{ .a = +1 }", "parse error at line 1, col 8: syntax error: unexpected +"),
        ("{ . }", "parse error at line 1, col 4: syntax error: unexpected END_ATTRIBUTE, expecting IDENTIFIER"),
        ('{ ."a }', 'parse error at line 1, col 8: syntax error: unexpected EOF, expecting "'),
        ('{ .a = "\\q" }', "parse error at line 1, col 8: invalid char escape"),
        ('{ .a = "x }', "parse error at line 1, col 8: literal not terminated"),
        ("{ .a = 0x10 }", 'parse error at line 1, col 8: strconv.Atoi: parsing "0x10": invalid syntax'),
        (
            "{ .a = 9223372036854775808 }",
            'parse error at line 1, col 8: strconv.Atoi: parsing "9223372036854775808": value out of range',
        ),
        ("{ resource:x = 1 }", "parse error at line 1, col 3: unknown identifier: resource"),
        (
            "{ trace:rootServiceName = 1 }",
            "parse error at line 1, col 9: syntax error: unexpected rootServiceName, "
            "expecting duration or rootName or rootService or id",
        ),
        ("({} | count() > 2) || {}", "parse error at line 1, col 23: syntax error: unexpected {"),
    ],
)
def test_the_first_error_is_reported(text: str, message: str) -> None:
    with pytest.raises(TraceQLSyntaxError) as raised:
        parse(text)
    assert str(raised.value) == message


def test_an_error_knows_its_place() -> None:
    with pytest.raises(TraceQLSyntaxError) as raised:
        parse("{ .a = 1 }\n&& [")
    assert (raised.value.line, raised.value.column) == (2, 4)


def test_a_text_may_not_be_longer_than_it_may() -> None:
    with pytest.raises(TraceQLError, match=f"maximum size of {MAX_BYTES} bytes"):
        parse("{" + " " * MAX_BYTES + "}")


@pytest.mark.parametrize(
    "text",
    [
        "{ " + "(" * 100_000,
        "(" * 100_000,
        "{ " + "!" * 100_000 + "true }",
        "{} | rate() > " + "(" * 50_000,
        " && ".join(["{ .a }"] * 10_000),
        "{ " + " || ".join([".a"] * 10_000) + " }",
    ],
)
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(TraceQLSyntaxError, match="nested deeper than 200 levels"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("resource.service.name", Attribute("resource", "service.name")),
        (".service.name", Attribute("", "service.name")),
        ('span."odd name"', Attribute("span", "odd name")),
        ("status", Intrinsic("status")),
        ("span:status", Intrinsic("status")),
        ("event:name", Intrinsic("event:name")),
    ],
)
def test_names_of_attributes(text: str, expected: Attribute | Intrinsic) -> None:
    assert parse_attribute(text) == expected


def test_what_is_no_attribute() -> None:
    with pytest.raises(TraceQLSyntaxError, match="unknown identifier: service"):
        parse_attribute("service.name")
