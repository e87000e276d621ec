"""Searches are answered in Tempo's shape."""

from __future__ import annotations

import pyarrow as pa
import pytest
from google.protobuf import json_format

from frazil.query.traceql.api.messages import message_class
from tests.query.traceql.api.support import END, START, Api
from tests.query.traceql.span_texts import BASE, read_spans

SPANS = """
1 a - name=GET service=web took=2000 kind=server span.x=5 span.dup="own" resource.dup="res"
1 b a name=query service=db start=10 took=20 status=error span.http.status_code=500
2 b ff name=orphan start=5000 took=0 span.x="five"
"""


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(read_spans(SPANS))


def test_a_found_trace(api: Api) -> None:
    answer = api.search("/api/search", q='{ name = "GET" } | select(kind, .dup, span.nosuch)')
    spans = {
        "spans": [
            {
                "spanID": "000000000000000a",
                "name": "GET",
                "startTimeUnixNano": str(BASE),
                "durationNanos": "2000000000",
                "attributes": [
                    {"key": "kind", "value": {"stringValue": "server"}},
                    {"key": "dup", "value": {"stringValue": "own"}},
                    {"key": "dup", "value": {"stringValue": "res"}},
                ],
            }
        ],
        "matched": 1,
    }
    assert answer["traces"] == [
        {
            "traceID": "1",
            "rootServiceName": "web",
            "rootTraceName": "GET",
            "startTimeUnixNano": str(BASE),
            "durationMs": 2000,
            "spanSet": spans,
            "spanSets": [spans],
            "serviceStats": {"web": {"spanCount": 1}, "db": {"spanCount": 1, "errorCount": 1}},
        }
    ]
    assert answer["metrics"]["totalJobs"] == 1


def test_a_trace_without_its_root(api: Api) -> None:
    (found,) = api.search("/api/search", q="{ .x = `five` }")["traces"]
    assert found["rootServiceName"] == "<root span not yet received>"
    assert "rootTraceName" not in found
    assert "durationMs" not in found


def test_spansets_have_what_stages_found_out(api: Api) -> None:
    answer = api.search("/api/search", q="{} | by(.x) | max(duration) > 0 | count() > 0", limit=1, spss=1)
    (found,) = api.search("/api/search", q="{ trace:id = `1` } | by(.x) | max(duration) > 0")["traces"]
    assert [each["attributes"] for each in found["spanSets"]] == [
        [
            {"key": "by(.x)", "value": {"stringValue": "nil"}},
            {"key": "max(duration)", "value": {"stringValue": "20ms"}},
        ],
        [
            {"key": "by(.x)", "value": {"intValue": "5"}},
            {"key": "max(duration)", "value": {"stringValue": "2s"}},
        ],
    ]
    assert len(answer["traces"]) == 1


def test_newest_first_up_to_the_limit(api: Api) -> None:
    assert [each["traceID"] for each in api.search("/api/search", q="{}")["traces"]] == ["2", "1"]
    assert [each["traceID"] for each in api.search("/api/search", q="{}", limit=1)["traces"]] == ["2"]


def test_a_trace_that_reaches_into_the_range_is_found(api: Api) -> None:
    second = BASE // 10**9
    assert [
        each["traceID"] for each in api.json("/api/search", q="{}", start=second + 1, end=second + 3)["traces"]
    ] == ["1"]
    assert api.json("/api/search", q="{}", start=second + 3, end=second + 4)["traces"] == []


def test_the_metrics_of_a_query_are_not_searched(api: Api) -> None:
    answer = api.search("/api/search", q="{ status = error } | rate() by(name) | topk(3)")
    assert [each["traceID"] for each in answer["traces"]] == ["1"]


def test_protobuf_says_the_same(api: Api) -> None:
    reply = api.get("/api/search", accept="application/protobuf", q="{}", start=START, end=END)
    assert reply.headers["content-type"] == "application/protobuf"
    message = message_class("SearchResponse").FromString(b"".join(reply.body))
    assert json_format.MessageToDict(message)["traces"] == api.search("/api/search", q="{}")["traces"]


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("service.name=we", ["1"]),
        ("service.name=WE", []),
        ("service.name=web name=quer", ["1"]),
        ("http.status_code=500", ["1"]),
        ("http.status_code=50", []),
        ("status.code=error", ["1"]),
        ("root.name=GET root.service.name=web", ["1"]),
        ('x="five"', ["2"]),
        ("x", []),
        ("", ["2", "1"]),
    ],
)
def test_search_by_tags(api: Api, tags: str, found: list[str]) -> None:
    traces = api.search("/api/search", tags=tags)["traces"]
    assert [each["traceID"] for each in traces] == found
    assert not any("spanSets" in each for each in traces)


def test_search_by_duration(api: Api) -> None:
    assert [each["traceID"] for each in api.search("/api/search", minDuration="1s")["traces"]] == ["1"]
    assert [each["traceID"] for each in api.search("/api/search", maxDuration="1s")["traces"]] == ["2"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"q": "{ a }"}, "invalid TraceQL query: parse error at line 1, col 3: unknown identifier: a"),
        ({"q": "{ status > ok }"}, "invalid TraceQL query: illegal operation for the given types: status > ok"),
        ({"q": "{ parent.a }"}, "invalid TraceQL query: parent not yet supported"),
        ({"q": "{}", "tags": "a=b"}, "invalid request: can't specify tags and q in the same query"),
        ({"tags": "a=1 a=2"}, "invalid tags: tag a has been set twice"),
        ({"tags": 'k="v'}, "invalid tags: unterminated quoted value at pos 3"),
        ({"minDuration": "5"}, 'invalid minDuration: time: missing unit in duration "5"'),
        ({"minDuration": "5s", "maxDuration": "1s"}, "invalid maxDuration: must be greater than minDuration"),
        ({"limit": 0}, "invalid limit: must be a positive number"),
        ({"limit": "x"}, 'invalid limit: strconv.ParseUint: parsing "x": invalid syntax'),
        ({"limit": 300000}, "limit 300000 exceeds max limit 262144"),
        ({"spss": 101}, "spans per span set exceeds 100. received 101"),
        ({"start": 5, "end": 0}, "http parameter start must be before end. received start=5 end=0"),
        (
            {"start": 1, "end": 700000},
            "range specified by start and end exceeds 168h0m0s. received start=1 end=700000",
        ),
    ],
)
def test_what_is_refused(api: Api, parameters: dict[str, object], message: str) -> None:
    assert api.error("/api/search", **parameters) == (400, message)


def test_tenants_see_their_own(api: Api) -> None:
    table: pa.Table = read_spans(SPANS)
    assert Api(table, "tenant-1").search("/api/search", q="{}")["traces"] == []
