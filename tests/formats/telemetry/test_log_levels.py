"""The level of log records is the one that Loki detects."""

from __future__ import annotations

import json
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from frazil.doors.otlp.signals import LOGS
from frazil.formats.otlp import logs
from frazil.formats.telemetry.line_levels import LEVELS, levels_of_lines
from tests.formats.loki.support import message
from tests.formats.loki.support import rows_of as pushed_rows
from tests.formats.telemetry.plain_levels import FIELDS, detected_level, of_line
from tests.formats.telemetry.support import rows_of

LINES = {
    "DEBUG: x": "debug",
    "x:error": "unknown",
    "errors": "unknown",
    "misc=error y": "error",
    "level=foo error here": "error",
    "severity=Critical level=info": "info",
    '{"level":5,"msg":"error"}': "error",
    '{"msg":"error happened"}': "error",
    "information": "unknown",
    "notice x": "unknown",
    "": "unknown",
    "warn error": "warn",
    "[ERROR] out of memory": "error",
    'ts=1 lvl="Wrn" msg="an error"': "warn",
    'msg="level=debug" level=info': "info",
    "level is=high info": "info",
    "levels=error level=warn": "warn",
    "a==b level=wrn": "unknown",
    '{"log":{"level":"err"},"level":"info"}': "error",
    '{"a":{"b":{"level":"err"}},"level":"inf"}': "info",
    '{"a":[{"level":"err"}],"level":"inf"}': "info",
    '{"a":{"b":{"c":{"d":{"e":[[]]}}}},"lvl":"inf"}': "info",
    '{"lev\\u0065l":"inf"}': "info",
    '{"text":"\\"level\\":\\"err\\"","level":"wrn"}': "warn",
    '{"level":"wrn"': "unknown",
    "İNFO": "info",
    "level=İNF": "unknown",
    "ſeverity=wrn": "warn",
    "é level=err é": "error",
}


def test_lines() -> None:
    """These are the levels that Loki 3.7 detects."""
    found = [LEVELS[code] for code in levels_of_lines(pa.array(list(LINES)))]
    assert dict(zip(LINES, found, strict=True)) == LINES
    assert {line: of_line(line) for line in LINES} == LINES


def test_lines_that_are_null() -> None:
    assert levels_of_lines(pa.array([None, "info"], pa.string())).tolist() == [0, LEVELS.index("info")]
    assert levels_of_lines(pa.array([], pa.string())).tolist() == []


words = st.sampled_from(
    [
        *("error", "err", "Warning", "wrn", "INFO", "inf", "debug", "Trace", "fatal", "critical", "information"),
        "foo",
        "",
    ]
)
signs = st.sampled_from(
    [*' \t\n=":,[](){}!.\\', "\x00", "\x0b", "\N{NO-BREAK SPACE}", "é", "ſ", "İ", "\N{REPLACEMENT CHARACTER}"]
)
names = st.sampled_from([*FIELDS, "lEvEl", "ſeverity", "LOG.LEVEL", "levels", "loglevel", "msg", "é"])
texts = st.lists(words | signs | names, max_size=6).map("".join)
scalars = words | texts | st.sampled_from([1, -2.5, True, None, 1e30])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
blanks = st.sampled_from(["", "", " ", "\n", "\N{NO-BREAK SPACE}"])


@st.composite
def objects(draw: st.DrawFn) -> str:
    found = draw(st.dictionaries(names, values, max_size=4))
    separators = draw(st.sampled_from([(", ", ": "), (",", ":")]))
    text = json.dumps(found, ensure_ascii=draw(st.booleans()), separators=separators)
    return draw(blanks) + text + draw(blanks)


@st.composite
def pairs(draw: st.DrawFn) -> str:
    value = st.one_of(words, words.map(json.dumps), texts.map(json.dumps), texts)
    one = st.tuples(names, st.sampled_from(["=", "=", "=", " ", "=="]), value).map("".join)
    return draw(st.sampled_from([" ", "  ", "\t", "", "\x01"])).join(draw(st.lists(one, max_size=4)))


lines = st.one_of(texts, objects(), pairs())


@given(lines=st.lists(lines, max_size=12))
def test_lines_are_searched_as_one_by_one(lines: list[str]) -> None:
    found = [LEVELS[code] for code in levels_of_lines(pa.array(lines, pa.string()))]
    assert found == [of_line(line) for line in lines]


keys = st.sampled_from(
    [
        *FIELDS,
        "detected_level",
        "detected.level",
        "severity.text",
        "severity_number",
        "log_level",
        "http.method",
        "é",
        "",
    ]
)
metadata = st.lists(
    st.tuples(keys, words | st.sampled_from(["30", "Notice", "-1", "9", "0", "25"])),
    max_size=3,
    unique_by=lambda pair: pair[0],
)


@given(
    entries=st.lists(st.tuples(lines, metadata), min_size=1, max_size=5),
    labels=st.dictionaries(keys.filter(bool), words, max_size=3),
)
def test_pushed_entries(entries: list[tuple[str, list[tuple[str, str]]]], labels: dict[str, str]) -> None:
    rows = pushed_rows(message((labels, [(1, line, pairs) for line, pairs in entries]))).batch
    assert set(rows["ingest_protocol"].to_pylist()) == {"loki"}
    assert rows["detected_level"].to_pylist() == [detected_level(line, labels, pairs) for line, pairs in entries]


def attributes(pairs: list[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in pairs]


records = st.tuples(lines, metadata, words | st.just("Notice"), st.integers(-1, 26) | st.just(0))


@given(given=st.lists(st.tuples(st.lists(records, max_size=4), metadata, metadata), max_size=3))
def test_records_of_otlp(given: list[Any]) -> None:
    request = logs.REQUEST()
    expected = []
    for of_scope, resource, scope in given:
        of_resource = ResourceLogs()
        of_resource.resource.attributes.extend(attributes(resource))
        sent = ScopeLogs()
        sent.scope.attributes.extend(attributes(scope))
        for line, own, text, number in of_scope:
            body = AnyValue(string_value=line)
            sent.log_records.append(
                LogRecord(body=body, attributes=attributes(own), severity_text=text, severity_number=number)
            )
            ranked = [
                *own,
                *([("severity_text", text)] if text else []),
                *([("severity_number", str(number))] if number else []),
            ]
            expected.append(detected_level(line, {}, [*ranked, *resource, *scope]))
        of_resource.scope_logs.append(sent)
        request.resource_logs.append(of_resource)
    rows = rows_of(LOGS, request).batch
    assert rows["detected_level"].to_pylist() == expected
    assert set(rows["ingest_protocol"].to_pylist()) <= {"otlp"}


def level_of(record: LogRecord) -> str:
    request = logs.REQUEST(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=[record])])])
    (level,) = rows_of(LOGS, request).batch["detected_level"].to_pylist()
    found: str = level
    return found


@pytest.mark.parametrize(
    ("number", "level"),
    [
        (1, "trace"),
        (8, "debug"),
        (9, "info"),
        (16, "warn"),
        (20, "error"),
        (24, "fatal"),
        (25, "unknown"),
        (-3, "trace"),
    ],
)
def test_numbers_of_severity(number: int, level: str) -> None:
    assert level_of(LogRecord(severity_number=cast(Any, number), body=AnyValue(string_value="critical"))) == level


def test_attributes_that_are_no_text() -> None:
    number = KeyValue(key="level", value=AnyValue(int_value=30))
    assert level_of(LogRecord(attributes=[KeyValue(key="a", value=AnyValue(bool_value=True)), number])) == "30"
    within = AnyValue(kvlist_value=KeyValueList(values=attributes([("x", "error")])))
    # Loki's name for it is `level_x`.
    record = LogRecord(attributes=[KeyValue(key="level", value=within)], body=AnyValue(string_value="warn"))
    assert level_of(record) == "warn"
    body = AnyValue(kvlist_value=KeyValueList(values=attributes([("level", "err")])))
    assert level_of(LogRecord(body=body)) == "error"


def test_the_first_of_keys_that_are_alike() -> None:
    alike = [("detected_level", "error"), ("detected.level", "warn")]
    assert level_of(LogRecord(attributes=attributes(alike), severity_text="INFO")) == "error"
    assert level_of(LogRecord(attributes=attributes(alike[::-1]), severity_text="INFO")) == "warn"


def test_damaged_objects_are_no_problem() -> None:
    nested = '{"level":' * 2000 + "}" * 2000
    damaged = ['{"a":{"b":{"c":{"d":[[{,"level":"err"}', '{"level":"err', nested, '{"level":"err"\\}', '{"\\u00}']
    assert len(levels_of_lines(pa.array(damaged))) == len(damaged)
