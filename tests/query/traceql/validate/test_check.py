"""What can be read is refused where its types or limits are wrong, in Tempo's words."""

from __future__ import annotations

import pytest

from frazil.query.traceql.errors import TraceQLInvalid, TraceQLUnsupported
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.validate.check import validate


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ .a + 1 }", "span filter field expressions must resolve to a boolean: { .a + 1 }"),
        ("{ duration = `1s` }", "binary operations must operate on the same type: duration = `1s`"),
        ("{ status > ok }", "illegal operation for the given types: status > ok"),
        ("{ !duration }", "illegal operation for the given type: !duration"),
        ("{ .b =~ .a }", "invalid type for =~ or !~: .a"),
        ("{ .a =~ `(` }", "invalid regex: `(`"),
        ("{ name = nil }", "name=nil is not valid because intrinsics cannot be nil"),
        (
            "{ nil = resource.service.name }",
            "resource.service.name=nil is not valid because resource.service.name cannot be nil",
        ),
        ("{} | avg(name) > 1", "aggregate field expressions must resolve to a number type: avg(name)"),
        ("{} | avg(1) > 1", "aggregate field expressions must reference the span: avg(1)"),
        ("{} | by(1)", "grouping field expressions must reference the span: by(1)"),
        ("{} | quantile_over_time(duration, 2)", "quantile must be between 0 and 1: 2"),
        ("{} | rate() | topk(0)", "limit must be greater than 0"),
        ("{} | compare({}, 0)", "compare() top number of values must be integer greater than 0"),
        ("{} | compare({}, 1, 0, 2)", "compare() timestamps must be positive integer unix nanoseconds"),
        ("{} | compare({}, 1, 2, 2)", "compare() end timestamp must be greater than start timestamp"),
        ("{} | compare({}) > 1", "`compare()` cannot be used with second stage functions"),
    ],
)
def test_what_is_invalid(text: str, message: str) -> None:
    with pytest.raises(TraceQLInvalid) as raised:
        validate(parse(text))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ parent.a = 1 }", "parent not yet supported"),
        ("{ parent }", "intrinsic (parent) not yet supported"),
        ("{} | count() + 1 > 2", "scalar filter lhs of type (arithmetic) not yet supported"),
        ("{} | count() > count()", "scalar filter rhs of type (aggregate) not yet supported"),
        ("({} | count()) > 1", "scalar filter lhs of type (pipeline) not yet supported"),
        (
            "{} | rate() by(.a, .b, .c, .d, .e, .f)",
            "metrics group by 6 values not yet supported",
        ),
        (
            "{} | histogram_over_time(duration) by(.a, .b, .c, .d, .e)",
            "metrics group by 5 values not yet supported",
        ),
    ],
)
def test_what_is_unsupported(text: str, message: str) -> None:
    with pytest.raises(TraceQLUnsupported) as raised:
        validate(parse(text))
    assert str(raised.value) == message
