"""Remote write over HTTP is answered as the protocol wants, and what is accepted is stored."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import zstandard

from frazil.formats.remote_write.messages import WriteRequest
from tests.doors.prometheus.support import PATH, packed, samples, write
from tests.doors.telemetry.support import Served, rows, run, sent_while_away, settings, small_log_on
from tests.formats.remote_write.support import TIME_MS, add
from tests.servers.proxy import Proxy

SNAPPY = {"content-encoding": "snappy"}
TYPE = "application/x-protobuf"


def test_what_is_acknowledged_can_be_read_at_once(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        answer = await write(served, samples(1.5, 2.5, job="api"))
        assert (answer.status_code, answer.content) == (204, b"")
        found = await asyncio.to_thread(rows, config, "metrics")
        assert found["prometheus_name"].to_pylist() == ["up", "up"]
        assert found["service_name"].to_pylist() == ["api", "api"]
        assert found["value_double"].to_pylist() == [1.5, 2.5]

    run(config, scenario)


def test_requests_without_samples_are_fine_and_nothing_is_stored(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        told = WriteRequest()
        told.metadata.add(type=1, metric_family_name="up", help="Says it.")
        for request in (WriteRequest(), samples(), told):
            assert (await write(served, request)).status_code == 204
        assert served.stored("metrics") == 0

    run(settings(tmp_path), scenario)


def test_what_is_told_of_metrics_counts_for_samples_that_come_later(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        told = WriteRequest()
        told.metadata.add(type=1, metric_family_name="up", help="Says it.")
        await write(served, samples(1.0))
        await write(served, told, x_scope_orgid="other")
        await write(served, samples(2.0))
        await write(served, told)
        await write(served, samples(3.0))
        found = await asyncio.to_thread(rows, config, "metrics")
        assert found["metric_type"].to_pylist() == ["gauge", "gauge", "sum"]
        assert found["description"].to_pylist() == [None, None, "Says it."]

    run(config, scenario)


@pytest.mark.parametrize(
    ("headers", "compress"),
    [
        ({}, packed),
        ({"content-encoding": "Snappy"}, packed),
        ({"content-encoding": "identity"}, bytes),
        ({"content-encoding": "gzip"}, gzip.compress),
        ({"content-encoding": "zstd"}, zstandard.ZstdCompressor().compress),
        ({**SNAPPY, "content-type": f"{TYPE};proto=prometheus.WriteRequest"}, packed),
        ({**SNAPPY, "content-type": 'Application/X-Protobuf ; PROTO="prometheus.WriteRequest"'}, packed),
        ({**SNAPPY, "content-type": f"{TYPE}; charset=utf-8"}, packed),
    ],
)
def test_forms_of_bodies(headers: dict[str, str], compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = compress(samples(1.0, name="x" * 5000).SerializeToString())
        answer = await served.post(PATH, body, "prometheus", **headers)
        assert answer.status_code == 204, answer.content
        assert served.stored("metrics") == 1

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize(
    ("body", "headers", "code", "reason"),
    [
        (packed(b"\xff\xff"), SNAPPY, 400, "The body is no WriteRequest"),
        (packed(b"\x0a\x05\x0a\x03\x0a\x01\xff"), SNAPPY, 400, "The body is no WriteRequest"),
        (b"\xff\xff\xff", SNAPPY, 400, "The body is not snappy"),
        (packed(b"x" * 99)[:-3], SNAPPY, 400, "The body is not snappy"),
        (b"x", {"content-encoding": "br"}, 415, "'br' is none of the encodings"),
        (b"", {"content-type": "application/json"}, 415, "'application/json' is not application/x-protobuf"),
        (
            b"",
            {"content-type": f"{TYPE};proto=io.prometheus.write.v3.Request"},
            415,
            "'io.prometheus.write.v3.Request' is neither prometheus.WriteRequest nor io.prometheus.write.v2.Request",
        ),
        (packed(b""), {**SNAPPY, "x-scope-orgid": "no/slash"}, 400, "cannot be a tenant"),
    ],
)
def test_wrong_requests_are_explained(
    body: bytes, headers: dict[str, str], code: int, reason: str, tmp_path: Path
) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post(PATH, body, "prometheus", **headers)
        assert answer.status_code == code
        assert reason in answer.text
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert "retry-after" not in answer.headers
        assert served.stored("metrics") == 0

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize("size", [1 << 21, 1 << 32])
def test_bodies_over_the_limit(size: int, tmp_path: Path) -> None:
    told = b""
    while size >= 0x80:
        told, size = told + bytes([size & 0x7F | 0x80]), size >> 7

    async def scenario(served: Served) -> None:
        answer = await served.post(PATH, told + bytes([size]) + b"x" * 50, "prometheus", **SNAPPY)
        assert answer.status_code == 413
        assert "`telemetry.max_body_mb`" in answer.text

    run(settings(tmp_path, telemetry={"max_body_mb": 1}), scenario)


def test_series_that_can_never_be_stored_are_told_and_the_others_stored(tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry={"limits": {"max_attributes": 3}})
    request = samples(1.0)
    add(request, (2.0, TIME_MS), (3.0, TIME_MS), job="x")
    add(request, (4.0, TIME_MS), name="many", a="1", b="2", c="3", d="4")
    add(request, (5.0, TIME_MS), name="good", a="1", b="2", c="3")

    async def scenario(served: Served) -> None:
        answer = await write(served, request)
        assert answer.status_code == 400
        assert answer.text == (
            "3 records can never be stored: 2 with no label `__name__`; "
            "more than 3 attributes (`telemetry.limits.max_attributes`)\n"
        )
        found = await asyncio.to_thread(rows, config, "metrics")
        assert found["value_double"].to_pylist() == [1.0, 5.0]
        # The same request again gets the same answer, and is not stored again.
        assert (await write(served, request)).text == answer.text
        assert served.stored("metrics") == 2

    run(config, scenario)


def test_the_same_bytes_again_are_stored_once(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        async def send(*values: float, tenant: str = "default", time: int = TIME_MS) -> int:
            before = served.stored("metrics")
            answer = await write(served, samples(*values, time=time), x_scope_orgid=tenant)
            assert answer.status_code == 204
            return served.stored("metrics") - before

        assert [await send(1.0, 2.0) for _ in range(3)] == [2, 0, 0]
        assert await send(1.0, 2.0, tenant="other") == 2
        assert await send(1.0, 2.0, time=TIME_MS + 1) == 2
        assert [await send(3.0, time=0), await send(3.0, time=0)] == [1, 0]

    run(config, scenario)

    async def after_a_restart(served: Served) -> None:
        assert (await write(served, samples(1.0, 2.0))).status_code == 204
        assert served.stored("metrics") == 7

    run(config, after_a_restart)


def test_tenants_have_a_rate(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        request = samples(1.0, text="x" * 700_000)
        assert (await write(served, request, x_scope_orgid="one")).status_code == 204
        answer = await write(served, request, x_scope_orgid="one")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert "`telemetry.limits.rate_mb`" in answer.text
        assert (await write(served, request, x_scope_orgid="two")).status_code == 204

    run(settings(tmp_path, telemetry={"limits": {"rate_mb": 0.01, "burst_mb": 1}}), scenario)


def test_more_at_once_than_there_is_room_for(tmp_path: Path) -> None:
    """Prometheus drops requests that are answered 429, and retries after 503."""
    config = settings(tmp_path, telemetry={"max_in_flight_mb": 1})

    async def scenario(served: Served) -> None:
        async def send(number: int) -> httpx.Response:
            body = samples(float(number), text="x" * 100_000).SerializeToString()
            return await served.post(PATH, body, "prometheus", content_encoding="identity")

        answers = await asyncio.gather(*(send(number) for number in range(200)))
        assert set(Counter(answer.status_code for answer in answers)) == {204, 503}
        assert all(int(each.headers["retry-after"]) >= 1 for each in answers if each.status_code == 503)
        stored = sorted(float(number) for number, answer in enumerate(answers) if answer.status_code == 204)
        found = await asyncio.to_thread(rows, config, "metrics")
        assert sorted(found["value_double"].to_pylist()) == stored
        assert (await send(1000)).status_code == 204

    run(config, scenario)


def test_a_log_that_is_full_because_the_store_is_away(s3_proxy: Proxy, s3_prefix: str, tmp_path: Path) -> None:
    config = settings(tmp_path, **small_log_on(s3_proxy, s3_prefix))

    async def scenario(served: Served) -> None:
        async def send(number: int) -> int:
            return (await write(served, samples(float(number), text="x" * 200_000))).status_code

        acknowledged = await sent_while_away(s3_proxy, send, stored=204, full=503)
        found = await asyncio.to_thread(rows, config, "metrics")
        assert sorted(found["value_double"].to_pylist()) == acknowledged

    run(config, scenario)


def test_many_small_requests_at_once_and_bad_ones_among_them(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        sent: list[object] = [samples(float(number)) for number in range(100)]
        sent[17] = b"\xff" * 20
        # The histogram is invalid, and the label is not text.
        sent[40] = b"\x0a\x04\x22\x02\x08\xff"
        sent[60] = b"\x0a\x05\x0a\x03\x0a\x01\xff"
        sent[80] = samples(80.0, name="")
        answers = await asyncio.gather(*(write(served, each) for each in sent))
        wrong = {number for number, answer in enumerate(answers) if answer.status_code != 204}
        assert wrong == {17, 40, 60, 80}
        assert {answers[number].status_code for number in wrong} == {400}
        found = await asyncio.to_thread(rows, config, "metrics")
        assert sorted(found["value_double"].to_pylist()) == [float(n) for n in range(100) if n not in wrong]

    run(config, scenario)


def test_a_small_request_that_would_be_more_than_there_is_memory(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        huge = samples(*[1.0] * 20_000, text="x" * 100_000)
        answers = await asyncio.gather(*(write(served, each) for each in (samples(1.0), huge, samples(2.0))))
        assert [answer.status_code for answer in answers] == [204, 400, 204]
        assert "Send smaller batches, or shorter attributes and labels." in answers[1].text
        assert served.stored("metrics") == 2

    run(config, scenario)


def test_other_methods_and_paths(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        url = served.url("prometheus")
        assert (await served.client.get(url + PATH)).status_code == 405
        for path in ("/-/ready", "/-/healthy"):
            assert (await served.client.get(url + path)).status_code == 200

    run(settings(tmp_path), scenario)
