"""OTLP over HTTP answers as the protocol wants, and stores what it accepted."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from tests.doors.telemetry.raw import Wire, head_1
from tests.doors.telemetry.support import JSON, PROTOBUF, Served, logs_request, rows, run, settings


def test_what_is_acknowledged_can_be_read_at_once(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        answer = await served.post("/v1/logs", logs_request("a", "b").SerializeToString())
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"] == "application/x-protobuf"
        found = await asyncio.to_thread(rows, config)
        assert found["body"].to_pylist() == ["a", "b"]
        assert found["service_name"].to_pylist() == ["shop", "shop"]

    run(config, scenario)


def test_an_empty_request_is_fine_and_nothing_is_stored(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert (await served.post("/v1/logs", b"")).status_code == 200
        assert (await served.post("/v1/logs", logs_request().SerializeToString())).status_code == 200
        assert served.stored() == 0

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:10]) + gzip.compress(body[10:])),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("zstd", zstandard.ZstdCompressor(write_content_size=False).compress),
        ("deflate", zlib.compress),
        ("deflate", lambda body: (made := zlib.compressobj(wbits=-15)).compress(body) + made.flush()),
        ("identity", lambda body: body),
    ],
)
def test_compressed_bodies(encoding: str, compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = compress(logs_request("a" * 5000, "b").SerializeToString())
        answer = await served.post("/v1/logs", body, content_encoding=encoding)
        assert answer.status_code == 200, answer.content
        assert served.stored() == 2

    run(settings(tmp_path), scenario)


def _status(content: bytes) -> Status:
    return Status.FromString(content)


@pytest.mark.parametrize(
    ("body", "headers", "code", "reason"),
    [
        (b"\xff\xff", {}, 400, "The body is no ExportLogsServiceRequest"),
        (b"{", JSON, 400, "The body is no ExportLogsServiceRequest in JSON"),
        (b'{"resourceLogs": 5}', JSON, 400, "resourceLogs"),
        (b"[" * 100_000, JSON, 400, "The body is no ExportLogsServiceRequest in JSON"),
        (b'{"\\ud800": 1}', JSON, 400, ""),
        (b'{"resourceLogs": "\\ud800"}', JSON, 400, "\\ud800"),
        (b"x", {"content-type": "text/plain"}, 415, "'text/plain' is neither application/x-protobuf nor"),
        (b"x", {"content-encoding": "br"}, 415, "'br' is none of the encodings"),
        (b"x", {"content-encoding": "gzip"}, 400, "The body is not gzip"),
        (
            gzip.compress(b"x" * 99, mtime=0)[:-9],
            {"content-encoding": "gzip"},
            400,
            "The body is not gzip: it ends too early",
        ),
        (b"x", {"content-encoding": "zstd"}, 400, "The body is not zstd"),
        (zstandard.compress(b"x" * 99)[:-3], {"content-encoding": "zstd"}, 400, "not zstd: it ends too early"),
        (b"", {"x-scope-orgid": "no/slash"}, 400, "cannot be a tenant"),
    ],
)
def test_wrong_requests_are_explained(
    body: bytes, headers: dict[str, str], code: int, reason: str, tmp_path: Path
) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post("/v1/logs", body, **headers)
        assert answer.status_code == code
        as_json = headers.get("content-type") == "application/json"
        message = json.loads(answer.content)["message"] if as_json else _status(answer.content).message
        assert reason in message
        assert answer.headers["content-type"] == ("application/json" if as_json else "application/x-protobuf")
        assert "retry-after" not in answer.headers
        assert served.stored() == 0

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize(
    ("size", "compress", "encoding"),
    [
        (1 << 20 | 1, bytes, ""),
        (1 << 26, gzip.compress, "gzip"),
        (1 << 26, zstandard.compress, "zstd"),
        (1 << 26, zlib.compress, "deflate"),
    ],
    ids=["plain", "gzip", "zstd", "deflate"],
)
def test_bodies_over_the_limit(size: int, compress: Callable[[bytes], bytes], encoding: str, tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = compress(bytes(size))
        answer = await served.post("/v1/logs", body, content_encoding=encoding)
        assert answer.status_code == 413
        assert "`telemetry.max_body_mb`" in _status(answer.content).message

    run(settings(tmp_path, telemetry={"max_body_mb": 1}), scenario)


def test_json(tmp_path: Path) -> None:
    config = settings(tmp_path)
    record = {
        "timeUnixNano": "1700000000000000001",
        "severityNumber": "SEVERITY_NUMBER_WARN",
        "traceId": "5B8EFFF798038103D269B633813FC60C",
        "spanId": "eee19b7ec3c1b174",
        "body": {"kvlistValue": {"values": [{"key": "n", "value": {"intValue": "5"}}]}},
        "unheardOf": [1, 2],
    }
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record, {"severityNumber": 9}]}]}]}).encode()

    async def scenario(served: Served) -> None:
        answer = await served.post("/v1/logs", body, **JSON)
        assert (answer.status_code, answer.json()) == (200, {})
        first, second = (await asyncio.to_thread(rows, config)).to_pylist()
        assert first["trace_id"].hex() == "5b8efff798038103d269b633813fc60c"
        assert first["span_id"].hex() == "eee19b7ec3c1b174"
        assert (first["body"], first["body_type"]) == ('{"n":5}', "k")
        assert [first["severity_number"], second["severity_number"]] == [13, 9]
        assert first["timestamp_ns"] == 1

    run(config, scenario)


def test_the_same_bytes_again_are_stored_once(tmp_path: Path) -> None:
    config = settings(tmp_path)
    timed, untimed = logs_request("a", "b"), logs_request("c", time=0)

    async def scenario(served: Served) -> None:
        async def send(request: Message, tenant: str = "default") -> int:
            before = served.stored()
            answer = await served.post("/v1/logs", request.SerializeToString(), x_scope_orgid=tenant)
            assert answer.status_code == 200
            return served.stored() - before

        assert [await send(timed) for _ in range(3)] == [2, 0, 0]
        assert await send(timed, "other") == 2
        assert await send(logs_request("a", "b", time=5)) == 2
        assert [await send(untimed), await send(untimed)] == [1, 1]
        assert len(await asyncio.to_thread(rows, config, tenant="other")) == 2

    run(config, scenario)

    async def after_a_restart(served: Served) -> None:
        assert (await served.post("/v1/logs", timed.SerializeToString())).status_code == 200
        assert served.stored() == 8

    run(config, after_a_restart)


def test_records_over_a_limit_are_rejected_and_the_others_stored(tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry={"limits": {"max_record_kb": 4, "max_attributes": 3}})
    request = logs_request("small", "x" * 5000, "many", "y" * 6000)
    for number in range(4):
        request.resource_logs[0].scope_logs[0].log_records[2].attributes.add(key=f"a{number}")

    async def scenario(served: Served) -> None:
        answer = await served.post("/v1/logs", request.SerializeToString())
        partial = ExportLogsServiceResponse.FromString(answer.content).partial_success
        assert (answer.status_code, partial.rejected_log_records) == (200, 3)
        assert "`telemetry.limits.max_record_kb`" in partial.error_message
        assert "`telemetry.limits.max_attributes`" in partial.error_message
        assert (await asyncio.to_thread(rows, config))["body"].to_pylist() == ["small"]

    run(config, scenario)


def test_tenants_have_a_rate(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = logs_request("x" * 700_000).SerializeToString()
        assert (await served.post("/v1/logs", body, x_scope_orgid="one")).status_code == 200
        answer = await served.post("/v1/logs", body, x_scope_orgid="one")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert "`telemetry.limits.rate_mb`" in _status(answer.content).message
        assert (await served.post("/v1/logs", body, x_scope_orgid="two")).status_code == 200

    run(settings(tmp_path, telemetry={"limits": {"rate_mb": 0.01, "burst_mb": 1}}), scenario)


def test_many_small_requests_at_once_and_a_bad_one_among_them(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        bodies = [logs_request(f"record {number}").SerializeToString() for number in range(100)]
        bodies[17] = b"\xff" * 20
        bodies[60] = b"\x0a\x05\x12\x03\x12\x01\xff"
        answers = await asyncio.gather(*(served.post("/v1/logs", body) for body in bodies))
        assert {number for number, answer in enumerate(answers) if answer.status_code != 200} == {17, 60}
        found = await asyncio.to_thread(rows, config)
        assert sorted(found["body"].to_pylist()) == sorted(f"record {n}" for n in range(100) if n not in (17, 60))

    run(config, scenario)


def test_few_after_many(tmp_path: Path) -> None:
    """A single client does not wait for others."""

    async def scenario(served: Served) -> None:
        bodies = [logs_request(f"record {number}").SerializeToString() for number in range(120)]
        for together in (60, 1, 30, 2, 1, 26):
            answers = await asyncio.gather(*(served.post("/v1/logs", bodies.pop()) for _ in range(together)))
            assert {answer.status_code for answer in answers} == {200}
        assert served.stored() == 120

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize("api", ["otlp", "loki"])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([(b"x-scope-orgid", b"one"), (b"x-scope-orgid", b"two")], 400),
        ([(b"x-scope-orgid", b"a/b"), (b"x-scope-orgid", b"one")], 400),
        ([(b"X-Scope-OrgID", b"caf\xe9")], 400),
        ([(b"content-encoding", b"\xe9")], 415),
        ([(b"content-type", b"\xe9")], 415),
        ([(b"content-type", b"text/plain"), (b"content-type", b"application/json")], 415),
        ([(b"Content-Type", b"application/x-protobuf; charset=utf-8")], 200),
    ],
)
def test_headers_as_nobody_should_send_them(
    headers: list[tuple[bytes, bytes]], code: int, api: str, tmp_path: Path
) -> None:
    """Two tenant headers are an error; of other headers the first counts; an invalid tenant is an error and not
    absent."""
    path = {"otlp": "/v1/logs", "loki": "/otlp/v1/logs"}[api]

    async def scenario(served: Served) -> None:
        body = logs_request("a").SerializeToString()
        answer = await served.client.post(served.url(api) + path, content=body, headers=headers)
        assert answer.status_code == code
        assert served.stored() == (code == 200)

    run(settings(tmp_path), scenario)


def test_requests_follow_each_other_on_a_connection(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        wire = await Wire.open(served.url("otlp"))
        for number in range(3):
            body = logs_request(f"record {number}").SerializeToString()
            await wire.send(head_1("/v1/logs", len(body), PROTOBUF.items()) + body)
            assert await wire.is_accepted()
            await wire.skip_head()
        wire.close()
        assert served.stored() == 3

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize(
    ("method", "path", "code", "said"),
    [
        ("GET", "/v1/logs", 405, {"text": "Method Not Allowed", "allow": "POST"}),
        ("HEAD", "/v1/logs", 405, {"text": "", "allow": "POST"}),
        ("PUT", "/v1/traces", 405, {"text": "Method Not Allowed", "allow": "POST"}),
        ("POST", "/v1/nothing", 404, {"text": "Not Found"}),
        ("POST", "/v1/logs%0A", 404, {"text": "Not Found"}),
        ("POST", "/v1/logs/", 307, {"text": "", "location": "/v1/logs"}),
        ("GET", "/health", 200, {"text": "ok\n", "content-type": "text/plain; charset=utf-8"}),
        ("HEAD", "/health", 200, {"text": "", "content-length": "3"}),
        ("POST", "/health", 405, {"text": "Method Not Allowed"}),
    ],
)
def test_other_methods_and_paths(method: str, path: str, code: int, said: dict[str, str], tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        url = served.url("otlp")
        answer = await served.client.request(method, url + path, content=b"x" if method == "POST" else None)
        assert answer.status_code == code
        found = {"text": answer.text, **answer.headers}
        assert {name: found[name].removeprefix(url) for name in said} == said

    run(settings(tmp_path), scenario)
