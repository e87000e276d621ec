"""A trace by its id, in both versions and encodings."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from frazil.query.traceql.api.messages import message_class
from tests.query.traceql.api.support import END, START, Api
from tests.query.traceql.span_texts import BASE, read_spans, span_id, trace_id

SPANS = """
1 a - name=GET service=web took=2 kind=server span.x=5 scope:name=lib
1 b a name=call service=web kind=client start=1
1 b a name=serve service=db kind=server status=error message="boom" start=2
1 c b name=below service=db start=3
"""


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(read_spans(SPANS))


def test_the_first_version(api: Api) -> None:
    batches = api.json("/api/traces/1")["batches"]
    assert batches[0]["resource"] == {"attributes": [{"key": "service.name", "value": {"stringValue": "web"}}]}
    lib, _ = batches[0]["scopeSpans"]
    assert lib["scope"] == {"name": "lib"}
    assert lib["spans"] == [
        {
            "traceId": base64.b64encode(trace_id("1")).decode(),
            "spanId": base64.b64encode(span_id("a")).decode(),
            "name": "GET",
            "kind": "SPAN_KIND_SERVER",
            "startTimeUnixNano": str(BASE),
            "endTimeUnixNano": str(BASE + 2_000_000),
            "attributes": [{"key": "x", "value": {"intValue": "5"}}],
            "status": {},
        }
    ]


def test_a_server_with_the_id_of_its_client_gets_one_of_its_own(api: Api) -> None:
    message = TracesData.FromString(b"".join(api.get("/api/traces/1", accept="application/protobuf").body))
    spans = {span.name: span for each in message.resource_spans for own in each.scope_spans for span in own.spans}
    assert spans["call"].span_id == span_id("b")
    assert spans["serve"].span_id == span_id("1")
    assert spans["serve"].parent_span_id == span_id("b")
    assert spans["below"].parent_span_id == span_id("1")


def test_both_versions_say_the_same(api: Api) -> None:
    first, second = api.json("/api/traces/1"), api.json("/api/v2/traces/01")
    assert second["trace"]["resourceSpans"] == first["batches"]
    reply = api.get("/api/v2/traces/1", accept="application/protobuf, application/json")
    assert reply.headers["content-type"] == "application/protobuf"
    message = message_class("TraceByIDResponse").FromString(b"".join(reply.body))
    assert json_format.MessageToDict(message)["trace"] == second["trace"]


def test_some_spans_of_a_trace(api: Api) -> None:
    found = api.json("/api/v2/traces/1", q="{ status = error }")["trace"]["resourceSpans"]
    assert [span["name"] for each in found for scope in each["scopeSpans"] for span in scope["spans"]] == ["serve"]
    assert api.json("/api/v2/traces/1", q="{ name = `no` }")["trace"] == {}
    assert api.error("/api/v2/traces/1", q="{ a }")[0] == 400
    assert api.error("/api/v2/traces/1", q="{} | count() > 1")[0] == 400


def test_an_unknown_trace(api: Api) -> None:
    assert api.error("/api/traces/99") == (404, "")
    assert api.json("/api/v2/traces/99")["trace"] == {}
    message = b"".join(api.get("/api/v2/traces/99", accept="application/protobuf").body)
    # The empty trace is there.
    assert message.startswith(b"\x0a\x00")


def test_of_a_trace_that_is_too_large_a_part_is_returned() -> None:
    spans = "\n".join(f"1 {number:x} - name={'x' * 1000} start={number}" for number in range(1, 2001))
    api = Api(read_spans(spans), tempo={"max_trace_mb": 1})
    assert api.error("/api/traces/1") == (422, "trace exceeds max size (max bytes: 1048576)\n")
    found = api.json("/api/v2/traces/1")
    assert found["status"] == "PARTIAL"
    assert found["message"] == "Trace exceeds maximum size of 1048576 bytes, a partial trace is returned"
    shown = sum(len(scope["spans"]) for each in found["trace"]["resourceSpans"] for scope in each["scopeSpans"])
    assert 500 < shown < 1200
    reply = api.get("/api/v2/traces/1", accept="application/protobuf")
    message = message_class("TraceByIDResponse").FromString(b"".join(reply.body))
    assert json_format.MessageToDict(message)["message"] == found["message"]
    assert json_format.MessageToDict(message)["status"] == "PARTIAL"
    status, text = api.error("/jaeger/api/traces/1")
    assert (status, "trace exceeds max size" in text) == (422, True)


def test_of_a_trace_that_may_be_in_more_files_a_part_is_returned() -> None:
    spans = "\n".join(f"1 {number:x} - name=a start={number}" for number in range(1, 10))
    api = Api(read_spans(spans), tempo={"max_trace_files": 2})
    found = api.json("/api/v2/traces/1")
    assert found["status"] == "PARTIAL"
    assert found["message"] == (
        "Only the newest 2 files were searched (tempo.max_trace_files), and 1 more may have spans of it. "
        "Ask with start and end to have all files of that time searched."
    )
    assert len(found["trace"]["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 6
    unknown = api.json("/api/v2/traces/99")
    assert (unknown["trace"], "status" in unknown) == ({}, False)
    assert api.error("/api/traces/1") == (422, found["message"] + "\n")
    whole = api.search("/api/v2/traces/1")
    assert ("status" in whole, len(whole["trace"]["resourceSpans"][0]["scopeSpans"][0]["spans"])) == (False, 9)
    assert api.get("/api/traces/1", start=START, end=END).status == 200


@pytest.mark.parametrize("version", ["/api/traces/", "/api/v2/traces/"])
@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        ("xyz", {}, "trace IDs can only contain hex characters: invalid character 'x' at position 1"),
        ("1" * 33, {}, "trace IDs can't be larger than 128 bits"),
        ("1", {"start": 100, "end": 50}, "http parameter start must be before end. received start=100 end=50"),
        ("1", {"mode": "foo"}, "invalid value for mode foo"),
    ],
)
def test_what_is_refused(api: Api, version: str, path: str, parameters: dict[str, object], message: str) -> None:
    assert api.error(version + path, **parameters) == (400, message)
