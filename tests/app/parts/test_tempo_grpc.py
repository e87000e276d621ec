"""Tests Tempo's streaming API with a client of gRPC, while real query processes read the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from frazil.app.parts.log import LogPart
from frazil.app.parts.query import QueryPart
from frazil.app.parts.tempo_grpc import TempoGrpcPart
from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.formats.otlp.spans import TOPIC
from frazil.query.traceql.api.messages import message_class
from frazil.query.traceql.api.streaming import SERVICE
from frazil.query.traceql.streaming_server import MOST_MESSAGE_BYTES
from tests.query.support import World
from tests.query.traceql.span_texts import BASE, read_spans

SPANS = """
1 a - name=GET service=web took=20 span.x=5
1 b a name=query service=db start=10 status=error
2 a - name=GET service=web start=3000
"""
SECONDS = 120.0
START, END = BASE // 10**9 - 10, BASE // 10**9 + 60


def test_searches_are_streamed(tmp_path: Path) -> None:
    with World(tmp_path, tempo={"grpc": {"port": 0}}) as world:
        world.append(TOPIC, read_spans(SPANS).combine_chunks().to_batches()[0])

    async def scenario() -> None:
        metrics = CollectorRegistry()
        log = LogPart(world.config, metrics)
        query = QueryPart(world.config, metrics, log)
        part = TempoGrpcPart(world.config, metrics, lambda: query.room)
        for each in (log, query, part):
            await each.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{part.port}") as channel:
                await _ask(channel)
        finally:
            for each in (part, query, log):
                await each.stop()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


async def _ask(channel: grpc.aio.Channel) -> None:
    search = channel.unary_stream(
        f"/{SERVICE}/Search",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_class("SearchResponse").FromString,
    )

    async def found(query: str, tenant: str) -> list[str]:
        asked: Any = message_class("SearchRequest")(Query=query, start=START, end=END)
        call = search(asked, metadata=[("x-scope-orgid", tenant)], timeout=SECONDS)
        return [trace.traceID async for message in call for trace in message.traces]

    assert await found("{ name = `GET` }", "tenant-0") == ["2", "1"]
    assert await found("{ name = `GET` } > { status = error }", "tenant-0") == ["1"]
    assert await found("{}", "tenant-1") == []
    for query, tenant, code, said in (
        ("{", "tenant-0", grpc.StatusCode.INVALID_ARGUMENT, "parse error at line 1, col 2"),
        ("{}", "no/slash", grpc.StatusCode.INVALID_ARGUMENT, "cannot be a tenant"),
        ("{}", "a|b", grpc.StatusCode.INVALID_ARGUMENT, "query.multi_tenant"),
        ("x" * MOST_MESSAGE_BYTES, "tenant-0", grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await found(query, tenant)
        assert (raised.value.code(), said in (raised.value.details() or "")) == (code, True), raised.value
    health = health_pb2_grpc.HealthStub(channel)
    answer = await health.Check(health_pb2.HealthCheckRequest(service=SERVICE))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = _part(tmp_path, 0)
        await first.start()
        try:
            with pytest.raises(ConfigError, match=r"choose another with tempo\.grpc\.port"):
                await _part(tmp_path, first.port).start()
        finally:
            await first.stop()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def _part(folder: Path, port: int) -> TempoGrpcPart:
    config = Config.model_validate({"data_dir": folder, "tempo": {"grpc": {"port": port}}})
    metrics = CollectorRegistry()
    return TempoGrpcPart(config, metrics, lambda: QueryPart(config, metrics).room)
