"""Counts, errors and latencies of groups."""

from __future__ import annotations

import pytest

from tests.query.traceql.api.support import Api
from tests.query.traceql.span_texts import read_spans

SPANS = """
1 a - name=GET service=web kind=server took=20 span.code=200
1 b a name=query service=db kind=client took=10
1 c b name=query service=db kind=server took=8 status=error span.code=500
2 a - name=GET service=web kind=server took=30 status=error start=3000
2 b a name=POST service=web kind=server took=0 status=error start=3000
"""


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(read_spans(SPANS))


def test_server_spans_are_summarised_by_group(api: Api) -> None:
    web, db = api.search("/api/metrics/summary", q="{}", groupBy="resource.service.name")["summaries"]
    assert web == {
        "spanCount": "3",
        "errorSpanCount": "2",
        "series": [{"key": "resource.service.name", "value": {"type": 5, "s": "web"}}],
        "p99": str(2**25),
        "p95": str(2**25),
        "p90": str(2**25),
        "p50": web["p50"],
    }
    assert 1 < int(web["p50"]) <= 2**25
    assert (db["spanCount"], db["errorSpanCount"], db["p50"]) == ("1", "1", str(2**23))


def test_values_have_their_types_and_zeros_are_left_out(api: Api) -> None:
    found = api.search("/api/metrics/summary", q="{ name != `POST` }", groupBy="span.code, status,kind")["summaries"]
    assert [[pair["value"] for pair in each["series"]] for each in found] == [
        [{"type": 3, "n": "200"}, {"type": 8, "status": 2}, {"type": 9, "kind": 3}],
        [{"type": 3, "n": "500"}, {"type": 8}, {"type": 9, "kind": 3}],
        [{}, {"type": 8}, {"type": 9, "kind": 3}],
    ]
    assert "errorSpanCount" not in found[0]


def test_whole_traces_are_judged(api: Api) -> None:
    (found,) = api.search("/api/metrics/summary", q="{ name = `GET` } >> { status = error }", groupBy="rootName")[
        "summaries"
    ]
    assert (found["spanCount"], found["series"][0]["value"]) == ("2", {"type": 5, "s": "GET"})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"groupBy": "name"}, "parameter q is missing"),
        ({"q": "{}"}, "parameter groupBy is missing"),
        ({"q": "{", "groupBy": "name"}, "invalid TraceQL query: parse error at line 1, col 2"),
        ({"q": "{} | rate()", "groupBy": "name"}, "invalid TraceQL query: a summary is made of spans"),
        ({"q": "{}", "groupBy": "name,"}, "invalid TraceQL query: parse error"),
        ({"q": "{}", "groupBy": "a"}, "invalid TraceQL query: parse error at line 1, col 2: unknown identifier: a"),
        ({"q": "{}", "groupBy": "parent"}, "not yet supported"),
        ({"q": "{}", "groupBy": ".a,.b,.c,.d,.e,.f"}, "groupBy has 6 values"),
        ({"q": "{}", "groupBy": "name", "start": 5, "end": 5}, "end must be greater than start"),
    ],
)
def test_what_is_refused(api: Api, parameters: dict[str, object], message: str) -> None:
    status, text = api.error("/api/metrics/summary", **parameters)
    assert (status, message in text) == (400, True), text
