"""Clients of gRPC get what clients over HTTP get."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf import json_format

from frazil.engine.interface import QueryRequest, Reply
from frazil.errors import QueryTooLarge
from frazil.query.traceql.api import streaming
from frazil.query.traceql.api.messages import message_class
from frazil.query.traceql.streaming_service import StreamingService
from tests.query.traceql.api.support import END, START, Api, Context
from tests.query.traceql.span_texts import BASE, read_spans

SPANS = """
1 a - name=GET service=web took=20 span.x=5
1 b a name=query service=db start=10 status=error
2 a - name=GET service=web start=3000
"""


class PiecedReply:
    """Gives the body in pieces that know nothing of messages."""

    def __init__(self, reply: Reply) -> None:
        self.status = reply.status
        self.headers: Mapping[str, str] = reply.headers
        self._body = b"".join(reply.body)

    async def _pieces(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), 7):
            yield self._body[at : at + 7]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces()

    async def aclose(self) -> None:
        pass


class DirectRoom:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    async def ask(self, answer: str, request: QueryRequest) -> PiecedReply:
        if request.tenants == ("big",):
            raise QueryTooLarge("too large")
        module, _, function = answer.partition(":")
        return PiecedReply(getattr(import_module(module), function)(request, Context(self._table)))


def tenants_of(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(names) or ("tenant-0",)


def call(method: str, tenant: str = "", **fields: Any) -> list[dict[str, Any]]:
    return asyncio.run(_call(method, tenant, fields))


async def _call(method: str, tenant: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([StreamingService(DirectRoom(read_spans(SPANS)), tenants_of)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    known = streaming.METHODS.get(method) or streaming.METHODS["Search"]
    asked, answered = message_class(known.asked), message_class(known.answered)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stream = channel.unary_stream(
                f"/{streaming.SERVICE}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=answered.FromString,
            )
            metadata = [("x-scope-orgid", tenant)] if tenant else []
            found = [each async for each in stream(asked(**fields), metadata=metadata)]
    finally:
        await server.stop(None)
    return [json_format.MessageToDict(each) for each in found]


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(read_spans(SPANS))


def test_search(api: Api) -> None:
    (found,) = call("Search", Query="{ span.x = 5 }", start=START, end=END, Limit=5)
    assert found == api.search("/api/search", q="{ span.x = 5 }")
    (found,) = call("Search", Tags={"name": "quer"}, start=START, end=END)
    assert found["traces"] == api.search("/api/search", tags="name=quer")["traces"]


def test_tags(api: Api) -> None:
    assert call("SearchTags", start=START, end=END) == [api.search("/api/search/tags")]
    assert call("SearchTagsV2", start=START, end=END, scope="span") == [
        api.search("/api/v2/search/tags", scope="span")
    ]
    (values,) = call("SearchTagValues", tagName="name", start=START, end=END)
    assert values["tagValues"] == ["GET", "query"]
    (typed,) = call("SearchTagValuesV2", tagName="span.x", start=START, end=END)
    assert typed["tagValues"] == [{"type": "int", "value": "5"}]


def test_metrics() -> None:
    start, end = BASE, BASE + 4 * 10**9
    (found,) = call("MetricsQueryRange", query="{} | rate()", start=start, end=end, step=10**9)
    (series,) = found["series"]
    assert [each.get("value", 0) for each in series["samples"]] == [1, 1, 0, 1, 0]
    assert series["samples"][0]["timestampMs"] == str(start // 10**6)
    (instant,) = call("MetricsQueryInstant", query="{} | count_over_time()", start=start, end=end)
    assert instant["series"][0]["value"] == 2


def test_a_long_answer_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MOST_BYTES", 200)
    found = call("Search", Query="{}", start=START, end=END)
    assert [each["traces"][0]["traceID"] for each in found] == ["2", "1"]
    assert all(each["metrics"]["totalJobs"] == 1 for each in found)


@pytest.mark.parametrize(
    ("method", "fields", "code", "text"),
    [
        (
            "Search",
            {"Query": "{ a }"},
            grpc.StatusCode.INVALID_ARGUMENT,
            "invalid TraceQL query: parse error at line 1, col 3: unknown identifier: a",
        ),
        ("MetricsQueryRange", {"query": "{}"}, grpc.StatusCode.INVALID_ARGUMENT, "not a metrics query"),
        ("SearchTags", {"scope": "x"}, grpc.StatusCode.INVALID_ARGUMENT, "invalid scope: x"),
        ("Nope", {}, grpc.StatusCode.UNIMPLEMENTED, "Method not found!"),
    ],
)
def test_errors(method: str, fields: dict[str, Any], code: grpc.StatusCode, text: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        call(method, **fields)
    assert (raised.value.code(), raised.value.details()) == (code, text)


def test_tenants() -> None:
    (found,) = call("Search", tenant="nobody", Query="{}", start=START, end=END)
    assert "traces" not in found
    with pytest.raises(grpc.aio.AioRpcError, match="too large"):
        call("Search", tenant="big", Query="{}")
