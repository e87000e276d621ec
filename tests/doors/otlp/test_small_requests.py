"""Plain requests are stored as they came and converted later, and readers cannot tell the difference."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from tests.doors.telemetry.support import Served, logs_request, rows, run, settings


def raw_bytes(served: Served, topic: str = "logs") -> int:
    """Returns the bytes in the log that are not rows yet."""
    return sum(writer.tail.raw_bytes for writer in served.log.writers if writer.topic == topic)


def with_attributes(*counts: int) -> ExportLogsServiceRequest:
    """Returns a request with a record for each number, which has so many attributes."""
    request = logs_request(*(f"has {count}" for count in counts))
    for record, count in zip(request.resource_logs[0].scope_logs[0].log_records, counts, strict=True):
        for number in range(count):
            record.attributes.add(key=f"key-{number}").value.int_value = number
    return request


def test_they_are_there_at_once_and_after_a_restart(tmp_path: Path) -> None:
    config = settings(tmp_path)
    sent = [f"record {number}" for number in range(20)]

    async def scenario(served: Served) -> None:
        bodies = [logs_request(text, f"{text} again").SerializeToString() for text in sent]
        answers = await asyncio.gather(*(served.post("/v1/logs", body) for body in bodies))
        assert {answer.status_code for answer in answers} == {200}
        assert raw_bytes(served)
        # One reader reads the same files, and the other one has them in memory.
        found = (await asyncio.to_thread(rows, config))["body"].to_pylist()
        assert sorted(found) == sorted([*sent, *(f"{text} again" for text in sent)])
        assert raw_bytes(served)
        (writer,) = served.log.writers
        assert sum(entry.batch().num_rows for entry in writer.view().entries) == 40
        assert not raw_bytes(served)

    run(config, scenario)

    async def again(served: Served) -> None:
        body = logs_request(sent[0], f"{sent[0]} again").SerializeToString()
        assert (await served.post("/v1/logs", body)).status_code == 200
        assert served.stored() == 40
        for writer in served.log.writers:
            await asyncio.to_thread(writer.seal_all)
        assert len(await asyncio.to_thread(rows, config)) == 40

    run(config, again)


def test_each_has_its_own_fate(tmp_path: Path) -> None:
    """Some of them are converted at once, and some are refused."""
    config = settings(tmp_path, telemetry={"limits": {"max_attributes": 5}})
    bodies = {
        "plain": logs_request("plain").SerializeToString(),
        "without a time": logs_request("timeless", time=0).SerializeToString(),
        "too many attributes": with_attributes(3, 6).SerializeToString(),
        "large": logs_request("x" * 100_000).SerializeToString(),
        "nothing": b"",
        "no message": b"\xff" * 9,
    }

    async def scenario(served: Served) -> None:
        # The topic is created with the first request.
        assert (await served.post("/v1/logs", logs_request("first").SerializeToString())).status_code == 200
        answers = await asyncio.gather(*(served.post("/v1/logs", body) for body in bodies.values()))
        statuses = dict(zip(bodies, (answer.status_code for answer in answers), strict=True))
        assert statuses == {**dict.fromkeys(bodies, 200), "no message": 400}
        partial = ExportLogsServiceResponse.FromString(answers[2].content).partial_success
        assert partial.rejected_log_records == 1
        assert "`telemetry.limits.max_attributes`" in partial.error_message
        found = (await asyncio.to_thread(rows, config))["body"].to_pylist()
        assert sorted(found) == sorted(["first", "plain", "timeless", "has 3", "x" * 100_000])

    run(config, scenario)


def test_a_tenant_has_its_rate(tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry={"tenants": {"busy": {"rate_mb": 0.0001, "burst_mb": 0.001}}})
    body = logs_request("y" * 900).SerializeToString()

    async def scenario(served: Served) -> None:
        assert (await served.post("/v1/logs", body, x_scope_orgid="busy")).status_code == 200
        refused = await served.post("/v1/logs", body + logs_request("more").SerializeToString(), x_scope_orgid="busy")
        assert refused.status_code == 429
        assert (await served.post("/v1/logs", body)).status_code == 200
        assert served.stored() == 2
        assert raw_bytes(served)

    run(config, scenario)


def test_the_rest_of_one_of_which_some_was_stored(tmp_path: Path) -> None:
    """One of its records was over a limit then."""
    request = with_attributes(3, 6)
    strict = settings(tmp_path, telemetry={"limits": {"max_attributes": 5}})

    async def first(served: Served) -> None:
        assert (await served.post("/v1/logs", request.SerializeToString())).status_code == 200
        assert served.stored() == 1

    run(strict, first)

    async def second(served: Served) -> None:
        for _ in range(2):
            assert (await served.post("/v1/logs", request.SerializeToString())).status_code == 200
        assert served.stored() == 2

    run(settings(tmp_path), second)
    assert sorted(rows(strict)["body"].to_pylist()) == ["has 3", "has 6"]


def test_more_of_them_than_one_append_may_have(tmp_path: Path) -> None:
    config = settings(tmp_path, log={"max_append_mb": 1})
    texts = [f"{number} {'x' * 200}" for number in range(40)]

    async def scenario(served: Served) -> None:
        await served.post("/v1/logs", logs_request("first").SerializeToString())
        bodies = [
            logs_request(*(f"{text} {number}" for number in range(50)), service="s" * 1000).SerializeToString()
            for text in texts
        ]
        answers = await asyncio.gather(*(served.post("/v1/logs", body) for body in bodies))
        assert {answer.status_code for answer in answers} == {200}
        assert raw_bytes(served) > 1 << 20
        assert len(await asyncio.to_thread(rows, config)) == 40 * 50 + 1

    run(config, scenario)


def test_much_of_them_is_sealed_as_it_came(tmp_path: Path) -> None:
    """Its rows are the same as if it had been converted at once."""
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        for number in range(4):
            answers = await asyncio.gather(
                *(
                    served.post("/v1/logs", logs_request(f"{number}-{place}").SerializeToString())
                    for place in range(20)
                )
            )
            assert {answer.status_code for answer in answers} == {200}
            assert raw_bytes(served)
            for writer in served.log.writers:
                segment = await asyncio.to_thread(writer.seal)
                assert segment is not None
                assert segment.raw_encoding is not None
            assert not raw_bytes(served)

    run(config, scenario)
    assert sorted(rows(config)["body"].to_pylist()) == sorted(f"{n}-{place}" for n in range(4) for place in range(20))


@pytest.mark.parametrize("encoding", ["", "gzip", "json"])
def test_larger_ones_and_compressed_ones_too(tmp_path: Path, encoding: str) -> None:
    config = settings(tmp_path)
    request = logs_request(*(f"{number} {'x' * 300}" for number in range(1000)))
    headers = {"content_encoding": "gzip"} if encoding == "gzip" else {}
    body = request.SerializeToString()
    if encoding == "gzip":
        body = gzip.compress(body)
    if encoding == "json":
        body = MessageToJson(request).encode()
        headers = {"content_type": "application/json"}

    async def scenario(served: Served) -> None:
        for _ in range(2):
            assert (await served.post("/v1/logs", body, **headers)).status_code == 200
        assert served.stored() == 1000
        assert raw_bytes(served)

    run(config, scenario)
    assert rows(config)["body"].to_pylist() == [f"{number} {'x' * 300}" for number in range(1000)]
