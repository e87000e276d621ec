"""OTLP over gRPC stores what it acknowledges, and refuses the rest with the right status."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from tests.doors.otlp.support import LOGS, STATUS
from tests.doors.telemetry.raw import HEADERS, Wire, data, head_2
from tests.doors.telemetry.support import Served, logs_request, rows, run, settings


def channel(served: Served, **options: Any) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"127.0.0.1:{served.door.grpc_port}", **options)


async def export(served: Served, body: bytes, *metadata: tuple[str, str], **options: Any) -> Any:
    async with channel(served, **options) as opened:
        return await opened.unary_unary(LOGS)(body, metadata=metadata)


async def refused(served: Served, body: bytes, *metadata: tuple[str, str]) -> tuple[grpc.StatusCode, Status]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await export(served, body, *metadata)
    details = dict(caught.value.trailing_metadata() or ())
    status = Status.FromString(details[STATUS])
    assert status.message == caught.value.details()
    assert status.code == caught.value.code().value[0]
    return caught.value.code(), status


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_what_is_acknowledged_can_be_read_at_once(compression: grpc.Compression, tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        body = logs_request("a" * 1000, "b").SerializeToString()
        assert await export(served, body, ("x-scope-orgid", "one"), compression=compression) == b""
        assert len(await asyncio.to_thread(rows, config, tenant="one")) == 2
        assert len(await asyncio.to_thread(rows, config)) == 0

    run(config, scenario)


def test_a_method_that_is_no_utf_8_ends_its_own_call_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """gRPC clients send no such call, but others may."""

    async def scenario(served: Served) -> None:
        for _ in range(20):
            wire = await Wire.open(f"http://127.0.0.1:{served.door.grpc_port}")
            fields = (("content-type", "application/grpc"), ("te", "trailers"))
            await wire.send(head_2(f"{LOGS}é", None, fields) + data(b"\0\0\0\0\0", end=True))
            while (await wire.frame())[0] != HEADERS:
                pass
            wire.close()
        assert await export(served, logs_request("a").SerializeToString()) == b""

    run(settings(tmp_path), scenario)
    told = [each for each in caplog.records if each.name.startswith("grpc.")]
    assert 0 < len(told) < 10
    assert {each.levelname for each in told} == {"WARNING"}


def test_a_tenant_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = logs_request("a").SerializeToString()
        code, status = await refused(served, body, ("x-scope-orgid", "one"), ("x-scope-orgid", "two"))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "X-Scope-OrgID is there 2 times" in status.message
        assert served.stored() == 0

    run(settings(tmp_path), scenario)


def test_connections_beyond_the_bound_are_closed(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = logs_request("a").SerializeToString()
        async with channel(served) as opened:
            await opened.unary_unary(LOGS)(body)
            others = [await asyncio.open_connection("127.0.0.1", served.door.grpc_port) for _ in range(5)]
            for reader, writer in others[1:]:
                assert await reader.read() == b""
                writer.close()
            others[0][1].close()
            await opened.unary_unary(LOGS)(body)

    run(settings(tmp_path, otlp={"http": {"port": 0}, "grpc": {"port": 0, "max_connections": 2}}), scenario)


def test_the_same_bytes_over_the_other_protocol_are_stored_once(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = logs_request("a").SerializeToString()
        await export(served, body)
        assert (await served.post("/v1/logs", body)).status_code == 200
        assert served.stored() == 1

    run(settings(tmp_path), scenario)


def test_wrong_requests_are_explained_and_not_to_come_again(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        code, status = await refused(served, b"\xff\xff")
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "no ExportLogsServiceRequest" in status.message
        assert not status.details
        code, status = await refused(served, b"", ("x-scope-orgid", ".."))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "cannot be a tenant" in status.message

    run(settings(tmp_path), scenario)


def test_a_call_without_a_message(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async with channel(served) as opened:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await opened.stream_unary(LOGS)(iter(()))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == "The call has no message."

    run(settings(tmp_path), scenario)


def test_too_much_may_come_again(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = logs_request("x" * 700_000).SerializeToString()
        await export(served, body)
        code, status = await refused(served, body)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        info = RetryInfo()
        assert status.details[0].Unpack(info)
        assert info.retry_delay.ToTimedelta().total_seconds() > 1

    run(settings(tmp_path, telemetry={"limits": {"rate_mb": 0.01, "burst_mb": 1}}), scenario)


def test_a_message_over_the_limit(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await export(served, bytes(1 << 21))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert STATUS not in dict(caught.value.trailing_metadata() or ())

    run(settings(tmp_path, telemetry={"max_body_mb": 1}), scenario)


def test_partial_success(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await export(served, logs_request("a", "x" * 5000).SerializeToString())
        partial = ExportLogsServiceResponse.FromString(answer).partial_success
        assert partial.rejected_log_records == 1
        assert "`telemetry.limits.max_record_kb`" in partial.error_message
        assert served.stored() == 1

    run(settings(tmp_path, telemetry={"limits": {"max_record_kb": 4}}), scenario)


def test_health_and_reflection(tmp_path: Path) -> None:
    def services(address: str) -> list[str]:
        with grpc.insecure_channel(address) as opened:
            return sorted(ProtoReflectionDescriptorDatabase(opened).get_services())

    async def scenario(served: Served) -> None:
        async with channel(served) as opened:
            stub = health_pb2_grpc.HealthStub(opened)
            for service in ("", "opentelemetry.proto.collector.logs.v1.LogsService"):
                answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
        found = await asyncio.to_thread(services, f"127.0.0.1:{served.door.grpc_port}")
        assert "opentelemetry.proto.collector.logs.v1.LogsService" in found
        assert "grpc.health.v1.Health" in found

    run(settings(tmp_path), scenario)
