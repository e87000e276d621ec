"""Jaeger's API over the same spans."""

from __future__ import annotations

import json
import time

import pytest

from tests.query.traceql.api.support import Api
from tests.query.traceql.span_texts import BASE, read_spans

NOW = (time.time_ns() - BASE) // 10**6 - 60_000
"""A minute ago, in milliseconds after `BASE`."""
SPANS = f"""
1 a - name=GET service=web start={NOW} took=20 kind=server span.x=5 resource.host="h1" scope:name=lib
1 b a name=query service=db start={NOW + 1} took=5 kind=client status=error message="boom" span.y="z" event=retry@{NOW + 2}{{n=1}} link=2/a{{}}
2 a - name=GET service=web start={NOW + 100} took=2
2 b a name=query service=db start={NOW + 101} took=1
"""  # noqa: E501
DEPENDENCY = {"parent": "web", "child": "db", "callCount": 2}


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(read_spans(SPANS))


def ids(api: Api, **parameters: object) -> list[str]:
    return [each["traceID"].lstrip("0") for each in api.json("/jaeger/api/traces", **parameters)["data"]]


def test_services_and_operations(api: Api) -> None:
    assert api.json("/jaeger/api/services") == {
        "data": ["db", "web"],
        "total": 2,
        "limit": 0,
        "offset": 0,
        "errors": None,
    }
    assert api.json("/jaeger/api/services/web/operations")["data"] == ["GET"]
    assert api.json("/jaeger/api/operations", service="db")["data"] == [
        {"name": "query", "spanKind": ""},
        {"name": "query", "spanKind": "client"},
    ]
    assert api.json("/jaeger/api/operations", service="db", spanKind="client")["total"] == 1
    assert Api(read_spans(SPANS), "nobody").json("/jaeger/api/services")["data"] is None


def test_a_trace(api: Api) -> None:
    (trace,) = api.json("/jaeger/api/traces/1")["data"]
    own = "1".zfill(32)
    root, child = trace["spans"]
    assert trace["traceID"] == own
    assert trace["processes"] == {
        "p1": {"serviceName": "web", "tags": [{"key": "host", "type": "string", "value": "h1"}]},
        "p2": {"serviceName": "db", "tags": []},
    }
    assert root["operationName"] == "GET"
    assert root["startTime"] == BASE // 1000 + NOW * 1000
    assert root["duration"] == 20_000
    assert root["references"] == []
    assert root["tags"] == [
        {"key": "x", "type": "int64", "value": 5},
        {"key": "span.kind", "type": "string", "value": "server"},
        {"key": "otel.scope.name", "type": "string", "value": "lib"},
    ]
    assert child["references"] == [
        {"refType": "CHILD_OF", "traceID": own, "spanID": "a".zfill(16)},
        {"refType": "FOLLOWS_FROM", "traceID": "2".zfill(32), "spanID": "a".zfill(16)},
    ]
    assert {"key": "error", "type": "bool", "value": True} in child["tags"]
    assert child["logs"][0]["fields"] == [
        {"key": "event", "type": "string", "value": "retry"},
        {"key": "n", "type": "int64", "value": 1},
    ]


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({"service": "web"}, ["2", "1"]),
        ({"service": "web", "limit": 1}, ["2"]),
        ({"service": "db", "operation": "query"}, ["2", "1"]),
        ({"service": "db", "operation": "GET"}, []),
        ({"service": "web", "tags": json.dumps({"x": "5"})}, ["1"]),
        ({"service": "web", "tag": "x:5"}, ["1"]),
        ({"service": "web", "tag": "host:h1"}, ["1"]),
        ({"service": "db", "tag": "n:1"}, ["1"]),
        ({"service": "db", "tag": "error:true"}, ["1"]),
        ({"service": "web", "tag": "error:true"}, []),
        ({"service": "web", "tag": "span.kind:server"}, ["1"]),
        ({"service": "web", "minDuration": "10ms"}, ["1"]),
        ({"service": "web", "maxDuration": "10ms"}, ["2"]),
        ({"service": "web", "start": 0, "end": 1000}, []),
        ({"traceID": "2"}, ["2"]),
    ],
)
def test_search(api: Api, parameters: dict[str, object], found: list[str]) -> None:
    assert ids(api, **parameters) == found


def test_dependencies(api: Api) -> None:
    assert api.json("/jaeger/api/dependencies")["data"] == [DEPENDENCY]
    assert api.json("/jaeger/api/dependencies", service="db")["data"] == [DEPENDENCY]
    assert api.json("/jaeger/api/dependencies", service="nobody")["data"] == []


@pytest.mark.parametrize(
    ("path", "parameters", "status", "message"),
    [
        ("traces", {}, 400, "parameter 'service' is required"),
        ("operations", {}, 400, "parameter 'service' is required"),
        ("traces", {"service": "a", "tag": "x"}, 400, "malformed 'tag' parameter, expecting key:value, received: x"),
        ("traces", {"service": "a", "tags": "[]"}, 400, "malformed 'tags' parameter, expecting an object of strings"),
        ("traces/99", {}, 404, "trace not found"),
        ("traces/x", {}, 400, "trace IDs can only contain hex characters: invalid character 'x' at position 1"),
    ],
)
def test_what_is_refused(api: Api, path: str, parameters: dict[str, object], status: int, message: str) -> None:
    found, text = api.error(f"/jaeger/api/{path}", **parameters)
    assert found == status
    assert json.loads(text)["errors"] == [{"code": status, "msg": message}]
