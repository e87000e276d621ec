"""Tests what `query` and `query_range` answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frazil.errors import QueryError
from frazil.query.logql.api import labels
from frazil.query.logql.api.queries import query, query_range
from tests.query.logql.api.support import FORM, SECOND, START, Lines

ORDERS = '{app="shop"} |= "order"'


def lines_of(data: Any) -> list[str]:
    return [line for stream in data["result"] for _, line, *_ in stream["values"]]


def test_lines_are_grouped_by_all_their_labels(lines: Lines) -> None:
    data = lines.data(query_range, query=ORDERS + ' | user="u0"', limit=2)
    labels = {"app": "shop", "env": "dev", "service_name": "shop", "user": "u0"}
    assert data == {
        "resultType": "streams",
        "result": [
            {
                "stream": {**labels, "detected_level": "info"},
                "values": [[str(START + each * SECOND), f"level=info order={each}"] for each in (4, 2)],
            }
        ],
    }


def test_categorized_labels_are_beside_the_lines(lines: Lines) -> None:
    headers = {"x-loki-response-encoding-flags": "categorize-labels"}
    data = lines.data(query_range, query=ORDERS + " | logfmt", limit=1, headers=headers)
    extra = {
        "structuredMetadata": {"detected_level": "info", "user": "u1"},
        "parsed": {"level": "info", "order": "5"},
    }
    assert data == {
        "resultType": "streams",
        "encodingFlags": ["categorize-labels"],
        "result": [
            {
                "stream": {"app": "shop", "env": "dev", "service_name": "shop"},
                "values": [[str(START + 5 * SECOND), "level=info order=5", extra]],
            }
        ],
    }


def test_order_limit_and_interval(lines: Lines) -> None:
    forward = lines.data(query_range, query=ORDERS, direction="forward", limit=1)
    assert lines_of(forward) == ["level=error order=0"]
    spaced = lines.data(query_range, query=ORDERS + " | drop user, detected_level", interval=3, direction="FORWARD")
    assert lines_of(spaced) == ["level=error order=0", "level=error order=3"]


def test_series_of_samples(lines: Lines) -> None:
    text = 'sum by (app) (count_over_time({app=~".+"}[1m]))'
    data = lines.data(query_range, query=text, step=60, start=START, end=START + 120 * SECOND)
    minute = START // SECOND
    assert data == {
        "resultType": "matrix",
        "result": [
            {"metric": {"app": "shop"}, "values": [[minute, "1"], [minute + 60, "5"]]},
            {"metric": {"app": "web"}, "values": [[minute + 120, "2"]]},
        ],
    }


def test_an_instant(lines: Lines) -> None:
    at = START // SECOND + 60
    data = lines.data(query, query='sum by (app) (rate({app="shop"}[1m]))', time=at)
    assert data == {
        "resultType": "vector",
        "result": [{"metric": {"app": "shop"}, "value": [at, "0.08333333333333333"]}],
    }
    assert lines.data(query, query="1.5", time="1794944940.25") == {
        "resultType": "scalar",
        "result": [1794944940.25, "1.5"],
    }


def test_the_question_by_which_grafana_checks_a_data_source(lines: Lines) -> None:
    data = lines.data(query, query="vector(1)+vector(1)", time=4000000000)
    assert data == {"resultType": "vector", "result": [{"metric": {}, "value": [4000000000, "2"]}]}


def test_a_form_in_the_body(lines: Lines) -> None:
    body = b"query=%7Bapp%3D%22web%22%7D&limit=1"
    assert lines_of(lines.data(query_range, headers=FORM, body=body)) == ['{"path": "/b", "ok": true}']


def test_a_tenant_sees_its_own_lines_only(lines: Lines) -> None:
    data = lines.data(query_range, query='{app=~".+"}', tenants=("team-b",))
    assert lines_of(data) == ["not yours"]
    assert lines.data(query_range, query='{app=~".+"}', tenants=("nobody",))["result"] == []


def test_several_tenants_are_told_apart(lines: Lines) -> None:
    both = ("default", "team-b")
    found = lines.data(query_range, query='{app=~"web|other"} | drop detected_level', tenants=both)["result"]
    tenants = {stream["stream"]["app"]: stream["stream"]["__tenant_id__"] for stream in found}
    assert tenants == {"web": "default", "other": "team-b"}
    assert lines_of(lines.data(query_range, query='{__tenant_id__="team-b"}', tenants=both)) == ["not yours"]
    counted = 'sum by (__tenant_id__, service_name) (count_over_time({service_name=~"shop|other"}[10m]))'
    vector = lines.data(query, query=counted, time=START // SECOND + 60, tenants=both)["result"]
    assert [(each["metric"]["__tenant_id__"], each["value"][1]) for each in vector] == [
        ("default", "6"),
        ("team-b", "1"),
    ]
    assert lines.data(labels.values, "__tenant_id__", tenants=both) == ["default", "team-b"]


def test_nothing_was_sent_yet(tmp_path: Path) -> None:
    with Lines(tmp_path) as empty:
        assert empty.data(query_range, query=ORDERS)["result"] == []
        assert empty.data(query, query='count_over_time({app="x"}[1m])')["result"] == []


def test_an_answer_says_that_the_newest_lines_are_elsewhere(tmp_path: Path) -> None:
    store = {"url": str(tmp_path / "store")}
    with Lines(tmp_path / "one", store=store) as one, Lines(tmp_path / "other", store=store) as other:
        one.push(({"app": "a"}, [(START, "sealed", {})]))
        one.seal()
        one.push(({"app": "a"}, [(START + 1, "not yet", {})]))
        assert "warnings" not in one.ask(query_range, query='{app="a"}')
        answered = other.ask(query_range, query='{app="a"}')
        assert lines_of(answered["data"]) == ["sealed"]
        assert "newest lines may be missing" in answered["warnings"][0]
        assert other.reply(labels.labels).headers["x-frazil-complete"] == "false"


def test_too_many_series_are_an_error_but_for_drilldown(lines: Lines) -> None:
    text = 'count_over_time({app="shop"} | logfmt [5m])'
    with pytest.raises(QueryError, match=r"maximum number of series \(3\) reached"):
        lines.data(query_range, query=text)
    headers = {"x-query-tags": "Source=grafana-lokiexplore-app,kind=x"}
    answered = lines.ask(query_range, query=text, headers=headers)
    assert len(answered["data"]["result"]) == 3
    (warning,) = answered["warnings"]
    assert "returning partial results" in warning


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"query": '{app="x'}, "parse error at line 1, col 6: literal not terminated"),
        ({"query": ""}, "parse error : syntax error: unexpected $end"),
        ({"query": "{}"}, "queries require at least one regexp or equality matcher"),
        ({"query": '{app=~"("}'}, "error parsing regexp: missing closing )"),
        ({"query": ORDERS, "limit": 5001}, "limit > max_entries_limit_per_query (5001 > 5000)"),
        (
            {"query": ORDERS, "start": 0, "end": 3 * 10**6},
            "exceeds the limit (query length: 833h20m0s, limit: 30d1h)",
        ),
        ({"query": "rate({app='x'}[5m])"}, "unexpected IDENTIFIER, expecting STRING"),
    ],
)
def test_wrong_queries(lines: Lines, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(QueryError) as raised:
        lines.data(query_range, **{"step": 3600, **given})
    assert reason in str(raised.value)


@pytest.mark.parametrize("far", [2**63 - 1, -(2**63) + 1])
def test_far_times_are_no_trouble(lines: Lines, far: int) -> None:
    given: dict[str, Any] = {"start": far, "end": far, "step": 1}
    assert lines.data(query_range, query='count_over_time({app="shop"}[5m])', **given)["result"] == []
    assert lines.data(query_range, query='{app="shop"}', **given)["result"] == []
    assert lines.ask(labels.labels, **given) == {"status": "success"}
    with pytest.raises(QueryError, match="out of range"):
        lines.data(query, query="vector(1)", time=far)


def test_lines_are_no_instant(lines: Lines) -> None:
    with pytest.raises(QueryError, match="log queries are not supported as an instant query type"):
        lines.data(query, query=ORDERS)
