"""Names and values of attributes."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.query.traceql.api.support import END, START, Api
from tests.query.traceql.span_texts import read_spans

SPANS = """
1 a - name=GET service=web kind=server span.x=5 span.f=2.0 span.b=true span.empty="" resource.cluster="prod"
1 b a name=query service=db span.x="five" span.tags=["p","q"] event=retry@1{n=1} event=stop@2{n=2} link=2/a{w="z"} scope:name=lib scope.level="high"
2 a ff name=orphan service=db span.of/path="y"
"""  # noqa: E501


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(read_spans(SPANS))


def scopes(answer: Any) -> dict[str, list[str]]:
    return {each["name"]: each["tags"] for each in answer["scopes"]}


def test_names(api: Api) -> None:
    names = ["b", "cluster", "empty", "f", "level", "n", "of/path", "service.name", "tags", "w", "x"]
    assert api.search("/api/search/tags")["tagNames"] == names
    assert api.search("/api/search/tags", scope="resource")["tagNames"] == ["cluster", "service.name"]
    assert "traceDuration" in api.search("/api/search/tags", scope="intrinsic")["tagNames"]


def test_names_by_scope(api: Api) -> None:
    found = scopes(api.search("/api/v2/search/tags"))
    assert len(found.pop("intrinsic")) == 25
    assert found == {
        "resource": ["cluster", "service.name"],
        "span": ["b", "empty", "f", "of/path", "tags", "x"],
        "event": ["n"],
        "link": ["w"],
        "instrumentation": ["level"],
    }
    assert scopes(api.search("/api/v2/search/tags", scope="event")) == {"event": ["n"]}
    assert scopes(api.search("/api/v2/search/tags", scope="span", limit=2)) == {"span": ["b", "empty"]}


@pytest.mark.parametrize(
    "q", ['{ name = "query" }', '{ name = "query" && ', '{name="query" && .y = }', '{ name="query" &&']
)
def test_an_unfinished_query_narrows_down(api: Api, q: str) -> None:
    assert scopes(api.search("/api/v2/search/tags", scope="span", q=q)) == {"span": ["tags", "x"]}


def test_a_query_that_nobody_can_read_is_no_error(api: Api) -> None:
    assert scopes(api.search("/api/v2/search/tags", scope="resource", q="{ what")) == {
        "resource": ["cluster", "service.name"]
    }


def test_an_unknown_scope(api: Api) -> None:
    assert api.error("/api/v2/search/tags", scope="foo") == (400, "invalid scope: foo")


@pytest.mark.parametrize(
    ("tag", "values"),
    [
        ("span.x", [("int", "5"), ("string", "five")]),
        (".service.name", [("string", "db"), ("string", "web")]),
        ("resource.service.name", [("string", "db"), ("string", "web")]),
        ("span.f", [("float", "2.0")]),
        ("span.b", [("bool", "true")]),
        ("span.tags", [("string", "p"), ("string", "q")]),
        ("span.of/path", [("string", "y")]),
        ("event.n", [("int", "1"), ("int", "2")]),
        ("event:name", [("string", "retry"), ("string", "stop")]),
        ("link.w", [("string", "z")]),
        ("instrumentation.level", [("string", "high")]),
        ("name", [("string", "GET"), ("string", "orphan"), ("string", "query")]),
        ("rootName", [("string", "GET")]),
        ("rootServiceName", [("string", "web")]),
        ("status", [("keyword", "error"), ("keyword", "ok"), ("keyword", "unset")]),
        ("duration", []),
        ("trace:id", []),
        ("span.nosuch", []),
    ],
)
def test_values_with_types(api: Api, tag: str, values: list[tuple[str, str]]) -> None:
    found = api.search(f"/api/v2/search/tag/{tag}/values")["tagValues"]
    assert sorted((each["type"], each.get("value", "")) for each in found) == values


def test_an_empty_value_has_only_a_type(api: Api) -> None:
    assert api.search("/api/v2/search/tag/span.empty/values")["tagValues"] == [{"type": "string"}]


def test_values_of_the_first_version(api: Api) -> None:
    assert api.search("/api/search/tag/service.name/values")["tagValues"] == ["db", "web"]
    assert api.search("/api/search/tag/x/values")["tagValues"] == ["5", "five"]
    assert api.search("/api/search/tag/status.code/values")["tagValues"] == ["0", "1", "2", "error", "ok", "unset"]
    assert api.search("/api/search/tag/root.name/values")["tagValues"] == ["GET"]


def test_values_of_matching_spans(api: Api) -> None:
    answer = api.search("/api/v2/search/tag/name/values", q='{ resource.service.name = "web" }', limit=10)
    assert answer["tagValues"] == [{"type": "string", "value": "GET"}]
    assert len(api.search("/api/v2/search/tag/name/values", limit=2)["tagValues"]) == 2


def test_a_name_that_is_none(api: Api) -> None:
    assert api.error("/api/v2/search/tag/service.name/values") == (
        400,
        "please provide a valid tagName: failed to parse identifier service.name: "
        "parse error at line 1, col 2: unknown identifier: service",
    )
    assert api.error("/api/search/tag//values") == (400, "please provide a non-empty tagName")


def test_a_form_says_what_a_query_string_says(api: Api) -> None:
    form = urlencode({"limit": 1, "start": START, "end": END}).encode()
    found = api.post("/api/v2/search/tag/name/values", form)
    assert len(json.loads(b"".join(found.body))["tagValues"]) == 1
