"""Any text is a tree that prints itself, or an error with a place."""

from __future__ import annotations

import time

from hypothesis import example, given
from hypothesis import strategies as st

from frazil.errors import QueryError
from frazil.query.logql.parse.metric_tree import Query
from frazil.query.logql.parse.parser import parse

_WORDS = [
    "{",
    "}",
    "(",
    ")",
    "[5m]",
    "[",
    "]",
    ",",
    "|",
    "|=",
    "!=",
    "|~",
    "!~",
    "|>",
    "!>",
    "=",
    "=~",
    "==",
    ">",
    ">=",
    "<",
    "<=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "#",
    "\n",
    '"a"',
    '"a.*"',
    "`b`",
    '"("',
    '"<_>',
    'x"',
    '"<a>"',
    '"{{.a}}"',
    '"{{"',
    "app",
    'a=~"x"',
    '{app="x"}',
    "json",
    "logfmt",
    "--strict",
    "--keep-empty",
    "regexp",
    '"(?P<n>x)"',
    "pattern",
    "unpack",
    "line_format",
    "label_format",
    "decolorize",
    "drop",
    "keep",
    "unwrap",
    "bytes",
    "duration",
    "duration_seconds",
    "ip",
    "offset",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "bool",
    "and",
    "or",
    "unless",
    "rate",
    "count_over_time",
    "sum_over_time",
    "quantile_over_time",
    "absent_over_time",
    "sum",
    "topk",
    "approx_topk",
    "sort",
    "vector",
    "label_replace",
    "0",
    "1",
    "0.5",
    "1e3",
    "0x1p3",
    "0x10",
    "5m",
    "1h30m",
    "-5s",
    "1KB",
    "1.5MiB",
    "Inf",
    "$",
    "@",
    ".",
    "é",
    "\x00",
    "'",
]

_TEXTS = st.lists(st.sampled_from(_WORDS), max_size=25).map(" ".join) | st.text(max_size=40)

_LABELS = st.sampled_from(["app", "a", "level", "_x9"])
_STRINGS = st.text(max_size=6).map(lambda text: '"' + "".join(f"\\U{ord(each):08x}" for each in text) + '"')
_MATCHERS = st.builds("{}{}{}".format, _LABELS, st.sampled_from(["=", "!="]), _STRINGS)
_CONDITIONS = st.recursive(
    _MATCHERS
    | st.builds("{}{}{}".format, _LABELS, st.sampled_from([">", "==", "<="]), st.sampled_from(["1", "-2.5e3", "0.1"]))
    | st.builds("{} > {}".format, _LABELS, st.sampled_from(["5m", "1.5h", "100us", "1KiB", "3MB", "2GB", "1500B"]))
    | st.builds('{} = ip("10.0.0.0/8")'.format, _LABELS),
    lambda inner: st.builds("({}{}{})".format, inner, st.sampled_from([" and ", " or ", ", ", " "]), inner),
    max_leaves=4,
)
_STAGES = st.one_of(
    st.builds("{} {}".format, st.sampled_from(["|=", "!="]), _STRINGS),
    st.builds("|= {} or {}".format, _STRINGS, _STRINGS),
    st.builds("| {}".format, _CONDITIONS),
    st.sampled_from(
        [
            "| json",
            '| json a, b="c[0].d"',
            "| logfmt --strict --keep-empty",
            '| regexp "(?P<n>x)"',
            '| pattern "<a> <_>"',
            "| unpack",
            '| line_format "{{.a | upper}}"',
            '| label_format a=b, c="{{.d}}"',
            "| decolorize",
            '| drop a, b="c"',
            '| keep a, b=~"c.*"',
            '|> "a <_>"',
        ]
    ),
)
_LOGS = st.builds(lambda stages: " ".join(('{app="x"}', *stages)), st.lists(_STAGES, max_size=4))
_GROUPINGS = st.sampled_from(["", " by (a)", " without (a, b)", " by ()"])
_RANGES = st.one_of(
    st.builds("{}({}[{}]{})".format, st.sampled_from(["rate", "count_over_time", "absent_over_time"]), _LOGS,
              st.sampled_from(["5m", "1h30m", "500ms", "1w"]), st.sampled_from(["", " offset 5m", " offset -1.5h"])),
    st.builds("avg_over_time({} | unwrap duration(a) | {} [1m]){}".format, _LOGS, _CONDITIONS, _GROUPINGS),
    st.builds("quantile_over_time(0.95, {} | unwrap a [1m]){}".format, _LOGS, _GROUPINGS),
)  # fmt: skip
_METRICS = st.recursive(
    _RANGES | st.sampled_from(["1.5", "vector(2)", "vector(0.1234567)", "-3"]),
    lambda inner: st.one_of(
        st.builds("sum{}({})".format, _GROUPINGS, inner.filter(lambda text: text not in ("1.5", "-3"))),
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "^", "> bool", "/ on(a) group_left(b)"]), inner),
        st.builds('label_replace({}, "a", "$1", "b", "(.*)")'.format, inner),
    ),
    max_leaves=4,
)


@given(_TEXTS)
@example("(" * 5000)
@example("vector(1)" + "+vector(1)" * 5000)
@example("1" + "^1" * 5000)
@example('{a="b"}|' + "a=1," * 5000 + "a=1")
@example('{a="b"}|' + "a=1 or " * 5000 + "a=1")
@example('{a="b"}|line_format `' + "{{if .a}}" * 5000 + "`")
@example('{a="b"}|line_format `' + "{{if .a}}{{else if .b}}" * 500 + "`")
@example('{a="b"}|line_format `' + "{{" + "(" * 5000 + "}}`")
@example('{a="b"}|~"' + "(" * 5000 + '"')
def test_any_text_is_a_tree_or_an_error_with_a_place(text: str) -> None:
    started = time.monotonic()
    found = outcome(text)
    if isinstance(found, QueryError):
        assert str(found).startswith("parse error")
        assert not text.strip() or (found.line is not None and found.column is not None)
    else:
        assert parse(str(found)) == found
    assert time.monotonic() - started < 5


@given(_LOGS | _METRICS)
def test_what_is_right_prints_itself(text: str) -> None:
    tree = parse(text)
    assert parse(str(tree)) == tree
    assert str(parse(str(tree))) == str(tree)


def outcome(text: str) -> Query | QueryError:
    try:
        return parse(text)
    except QueryError as error:
        return error
