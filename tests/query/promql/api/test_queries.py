"""Tests the answers to requests, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from frazil.engine.answering import named
from frazil.engine.interface import QueryContext, QueryRequest, QueryStatistics, Reply
from frazil.formats.otlp.metrics import TOPIC
from frazil.formats.remote_write.messages import WriteRequest
from frazil.query.promql.api.routes import ROUTES
from frazil.scan.scanner import TopicScanner
from tests.formats.remote_write.support import add, rows_of
from tests.query.promql.plain_context import PlainContext
from tests.query.support import World

BEGIN = 1_700_000_000
TENANT = "team-a"
Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryContext]:
    with World(Path(tmp_path_factory.mktemp("world"))) as world:
        request = WriteRequest()
        for code in ("200", "500"):
            samples = [(float(at * len(code)), (BEGIN + at * 15) * 1000) for at in range(40)]
            add(request, *samples, name="hits_total", code=code, job="api")
        add(request, (1.5, BEGIN * 1000 + 500), **{"name": "my.metric", "a<b": "<é>"})
        world.append(TOPIC, rows_of(request, tenants=[TENANT]).batch)
        world.seal(TOPIC)
        world.move(TOPIC)
        yield PlainContext(world.config, TopicScanner(world.config))


def reply(context: QueryContext, path: str, body: bytes = b"", **given: Any) -> Reply:
    """Asks the function of the endpoint at this path; `given` goes into the query string."""
    for route in ROUTES:
        before, brace, after = route.path.removeprefix("/api/v1/").partition("{name}")
        if path.startswith(before) and path.endswith(after) and (brace or path == before):
            parameters = {"name": path.removeprefix(before).removesuffix(after)} if brace else {}
            query = urlencode([(key.replace("match", "match[]"), text) for key, text in given.items()], doseq=True)
            asked = QueryRequest("GET", path, parameters, query, {}, body, (TENANT,), "prometheus")
            found: Reply = named(route.answer)(asked, context)
            return found
    raise AssertionError(f"no route for {path}")


@pytest.fixture(scope="module")
def ask(context: QueryContext) -> Ask:
    def asked(path: str, **given: Any) -> tuple[int, Any]:
        found = reply(context, path, **given)
        text = b"".join(found.body)
        return found.status, orjson.loads(text) if text else None

    return asked


def test_a_query_at_one_moment(ask: Ask) -> None:
    status, found = ask("query", query="sum by (job) (hits_total)", time=BEGIN + 60)
    assert status == 200
    assert found == {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [{"metric": {"job": "api"}, "value": [BEGIN + 60, "24"]}],
        },
    }


def test_a_query_over_a_range_with_a_limit(ask: Ask) -> None:
    status, found = ask("query_range", query="hits_total", start=BEGIN, end=BEGIN + 30, step="15s", limit=1)
    assert status == 200
    assert found["data"]["result"] == [
        {
            "metric": {"__name__": "hits_total", "code": "200", "job": "api"},
            "values": [[BEGIN, "0"], [BEGIN + 15, "3"], [BEGIN + 30, "6"]],
        }
    ]
    assert found["warnings"] == ["results truncated due to limit"]


@pytest.mark.parametrize(
    ("query", "kind", "result"),
    [
        ("1/3", "scalar", [5, "0.3333333333333333"]),
        ("1e21", "scalar", [5, "1e+21"]),
        ("12345678901.5", "scalar", [5, "12345678901.5"]),
        ("-0.0000001", "scalar", [5, "-1e-07"]),
        ('"text"', "string", [5, "text"]),
        ("vector(-1/0)", "vector", [{"metric": {}, "value": [5, "-Inf"]}]),
        ("hits_total", "vector", []),
        (r'{__name__="\xff"}', "vector", []),
    ],
)
def test_results_of_each_type(ask: Ask, query: str, kind: str, result: Any) -> None:
    status, found = ask("query", query=query, time=5)
    assert (status, found["data"]) == (200, {"resultType": kind, "result": result})


def test_the_samples_of_a_range_vector(ask: Ask) -> None:
    _, found = ask("query", query='{"my.metric"}[1h]', time=BEGIN + 60)
    metric = {"__name__": "my.metric", "a<b": "<é>"}
    assert found["data"]["result"] == [{"metric": metric, "values": [[BEGIN + 0.5, "1.5"]]}]


@pytest.mark.parametrize(
    ("path", "given", "status", "kind", "reason"),
    [
        ("query", {"query": "sum("}, 400, "bad_data", 'invalid parameter "query": 1:5: parse error: unclosed left'),
        ("query", {"query": "1", "time": "x"}, 400, "bad_data", "invalid time value for 'time': cannot parse"),
        ("query", {"query": "1", "limit": "x"}, 400, "bad_data", "strconv.Atoi"),
        ("query", {"query": "1", "limit": "9" * 5000}, 400, "bad_data", "value out of range"),
        ("status/tsdb", {"limit": "9" * 5000}, 400, "bad_data", "limit must be a positive number"),
        ("query", {"query": "1", "timeout": "x"}, 400, "bad_data", '"timeout": cannot parse "x" to a valid dur'),
        ("query", {"query": "1", "lookback_delta": "x"}, 400, "bad_data", "error parsing lookback delta"),
        ("query", {"query": "hits_total + on() hits_total", "time": BEGIN}, 422, "execution", "many-to-many"),
        ("query", {"query": "hits_total", "time": BEGIN, "timeout": "1ns"}, 400, "bad_data", "timeout"),
        (
            "query_range",
            {"query": "1", "start": "", "end": 1, "step": 1},
            400,
            "bad_data",
            'cannot parse "" to a valid',
        ),
        (
            "query_range",
            {"query": "1", "start": 2, "end": 1, "step": 1},
            400,
            "bad_data",
            "end timestamp must",
        ),
        ("query_range", {"query": "1", "start": 1, "end": 2, "step": 0}, 400, "bad_data", "zero or negative query"),
        ("query_range", {"query": "1", "start": 0, "end": 11001, "step": 1}, 400, "bad_data", "11,000 points"),
        (
            "query_range",
            {"query": "a[1m]", "start": 0, "end": 1, "step": 1},
            400,
            "bad_data",
            "expression type",
        ),
        ("series", {}, 400, "bad_data", "no match[] parameter provided"),
        ("series", {"match": "{a=''}"}, 400, "bad_data", "must contain at least one non-empty matcher"),
        ("labels", {"match": "up["}, 400, "bad_data", "parse error"),
        ("admin/tsdb/delete_series", {}, 500, "unavailable", "admin APIs disabled"),
    ],
)
def test_what_is_wrong_is_said(ask: Ask, path: str, given: Any, status: int, kind: str, reason: str) -> None:
    found_status, found = ask(path, **given)
    assert (found_status, found.get("errorType")) == (status, kind)
    assert reason in found.get("error", "")


def test_a_query_ends_when_its_time_is_over(ask: Ask) -> None:
    status, found = ask("query", query="hits_total", time=BEGIN, timeout="0.000001")
    assert (status, found["errorType"]) == (503, "timeout")


@pytest.mark.parametrize("start", ["2023-11-14T22:13:20Z", "2023-11-14T23:13:20.000+01:00", str(BEGIN), f"{BEGIN}.0"])
def test_times_are_read_as_seconds_and_as_text(ask: Ask, start: str) -> None:
    _, found = ask("query", query="time()", time=start)
    assert found["data"]["result"] == [BEGIN, str(BEGIN)]


def test_labels_values_and_series(ask: Ask) -> None:
    assert ask("labels")[1]["data"] == ["__name__", "a<b", "code", "job"]
    assert ask("labels", match="hits_total")[1]["data"] == ["__name__", "code", "job"]
    assert ask("label/code/values")[1]["data"] == ["200", "500"]
    assert ask("label/U__a_3c_b/values")[1]["data"] == ["<é>"]
    assert ask("label/code/values", end=BEGIN - 1)[1]["data"] == []
    assert ask("label/code/values", limit=1)[1]["warnings"] == ["results truncated due to limit"]
    series = {"__name__": "hits_total", "code": "500", "job": "api"}
    assert ask("series", match=['hits_total{code="500"}', '{code=~"5.."}'])[1]["data"] == [series]


def test_what_there_is_none_of_is_well_formed(ask: Ask) -> None:
    assert ask("rules")[1]["data"] == {"groups": []}
    assert ask("alerts")[1]["data"] == {"alerts": []}
    assert ask("targets/metadata")[1]["data"] == []
    assert ask("query_exemplars", query="hits_total")[1]["data"] == []
    assert ask("query_exemplars", query="1")[0] == 204
    assert ask("metadata", metric="hits_total")[1]["data"] == {
        "hits_total": [{"type": "gauge", "unit": "", "help": ""}]
    }
    assert ask("status/buildinfo")[1]["data"]["version"]


def test_statistics_come_if_they_are_asked_for(ask: Ask) -> None:
    _, found = ask("query", query="hits_total", time=BEGIN, stats="all")
    assert found["data"]["stats"]["timings"]["evalTotalTime"] > 0
    assert "stats" not in ask("query", query="hits_total", time=BEGIN)[1]["data"]


def test_queries_are_printed_and_shown_as_trees(ask: Ask) -> None:
    assert ask("format_query", query="sum(a)by(b)")[1]["data"] == "sum by (b) (a)"
    tree = ask("parse_query", query='rate(x{a="b"}[5m] offset 1h) > bool 1')[1]["data"]
    assert tree["type"] == "binaryExpr"
    assert (tree["op"], tree["bool"], tree["matching"]) == (">", True, None)
    selector = tree["lhs"]["args"][0]
    assert (selector["type"], selector["range"], selector["offset"]) == ("matrixSelector", 300_000, 3_600_000)
    assert [each["name"] for each in selector["matchers"]] == ["a", "__name__"]


def test_an_answer_without_the_tail_has_a_warning(context: QueryContext) -> None:
    elsewhere = PlainContext(context.config, context.scanner, statistics=QueryStatistics(complete=False))
    found = reply(elsewhere, "query", query="hits_total", time=BEGIN)
    assert orjson.loads(b"".join(found.body))["warnings"] == [
        "the newest samples may be missing: they are in a log on another machine"
    ]
