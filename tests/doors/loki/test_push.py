"""Loki's push in Protobuf is answered as the protocol wants, and what is accepted is stored."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import httpx
import pytest

from tests.doors.loki.support import PATH, push, push_body, snappy
from tests.doors.telemetry.support import TIME, Served, logs_request, rows, run, settings
from tests.formats.loki.support import message


def explained(answer: httpx.Response, code: int, reason: str) -> None:
    assert answer.status_code == code, answer.text
    assert reason in answer.text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_what_is_acknowledged_can_be_read_at_once(tmp_path: Path) -> None:
    config = settings(tmp_path)
    body = message(
        ({"app": "shop", "level": "warn"}, [(TIME + 1, "a", {"trace_id": "ab" * 16, "user": "7"}), (TIME, "b", {})]),
        ({"host": "h"}, [(TIME, "c\nd", {})]),
    )

    async def scenario(served: Served) -> None:
        answer = await push(served, snappy(body))
        assert (answer.status_code, answer.content) == (204, b"")
        first, second, third = (await asyncio.to_thread(rows, config)).to_pylist()
        assert [first["body"], second["body"], third["body"]] == ["a", "b", "c\nd"]
        assert (first["service_name"], third["service_name"]) == ("shop", None)
        assert (first["severity_number"], third["severity_number"]) == (13, 0)
        assert first["resource_attributes"] == [("app", "shop"), ("level", "warn")]
        assert first["attributes"] == [("trace_id", "ab" * 16), ("user", "7")]
        assert first["trace_id"] == b"\xab" * 16
        assert first["timestamp_ns"] == 1

    run(config, scenario)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-encoding": "snappy"},
        {"content-type": ""},
        {"content-type": "application/x-protobuf; charset=utf-8"},
        {"content-type": "application/octet-stream"},
    ],
)
def test_ways_to_say_that_it_is_protobuf(headers: dict[str, str], tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert (await push(served, push_body("a"), **headers)).status_code == 204
        assert served.stored() == 1

    run(settings(tmp_path), scenario)


def test_no_content_type_at_all(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.client.post(served.url("loki") + PATH, content=push_body("a"))
        assert "content-type" not in answer.request.headers
        assert answer.status_code == 204
        assert served.stored() == 1

    run(settings(tmp_path), scenario)


def test_a_request_without_entries_is_fine_and_nothing_is_stored(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert (await push(served, snappy(b""))).status_code == 204
        assert (await push(served, push_body())).status_code == 204
        assert served.stored() == 0

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize(
    ("body", "headers", "code", "reason"),
    [
        (snappy(b"\xff\xff"), {}, 400, "The body is no PushRequest"),
        (message(({}, [(1, "not compressed", {})])), {}, 400, "The body is not snappy"),
        (b"", {}, 400, "The body is not snappy"),
        (push_body("a" * 100)[:-5], {}, 400, "The body is not snappy"),
        (push_body("a"), {"content-type": "text/plain"}, 415, "'text/plain' is neither application/x-protobuf nor"),
        (
            gzip.compress(b"a", mtime=0),
            {"content-encoding": "gzip"},
            415,
            "compressed with snappy here, not with 'gzip'",
        ),
        (push_body("a"), {"x-scope-orgid": "no/slash"}, 400, "cannot be a tenant"),
        (
            push_body("a", "b", labels='{app="x" y}'),
            {},
            400,
            "2 of the entries are not stored: streams[0]: ',' or '}' is expected, not 'y', at character 10",
        ),
        (push_body("a", labels='{a="1", a="2"}'), {}, 400, "label 'a' comes twice"),
        (push_body(labels="{"), {}, 400, "at character 2 of the labels"),
    ],
)
def test_wrong_requests_are_explained(
    body: bytes, headers: dict[str, str], code: int, reason: str, tmp_path: Path
) -> None:
    async def scenario(served: Served) -> None:
        answer = await push(served, body, **headers)
        explained(answer, code, reason)
        assert "retry-after" not in answer.headers
        assert served.stored() == 0

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize("body", [bytes((1 << 20) + 1), snappy(bytes(1 << 21)), b"\xff\xff\xff\xff\x0f"])
def test_bodies_over_the_limit(body: bytes, tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        explained(await push(served, body), 413, "`telemetry.max_body_mb`")

    run(settings(tmp_path, telemetry={"max_body_mb": 1}), scenario)


def test_good_streams_are_stored_when_others_are_not(tmp_path: Path) -> None:
    config = settings(tmp_path)
    body = message(
        ({"app": "one"}, [(TIME, "a", {})]),
        ("{app}", [(TIME, "b", {})]),
        ({"app": "two"}, [(TIME, "c", {})]),
    )

    async def scenario(served: Served) -> None:
        explained(await push(served, snappy(body)), 400, "1 of the entries are not stored: streams[1]: ")
        assert (await asyncio.to_thread(rows, config))["body"].to_pylist() == ["a", "c"]

    run(config, scenario)


def test_entries_over_a_limit_are_rejected_and_the_others_stored(tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry={"limits": {"max_record_kb": 4, "max_attributes": 3}})
    many = {f"a{number}": "b" for number in range(4)}
    entries = [(TIME, "small", {}), (TIME, "x" * 5000, {}), (TIME, "many", many)]
    body = message(("{", [(TIME, "wrong", {})]), ({}, entries))

    async def scenario(served: Served) -> None:
        answer = await push(served, snappy(body))
        explained(answer, 400, "3 of the entries are not stored: streams[0]: ")
        explained(answer, 400, "`telemetry.limits.max_record_kb`")
        explained(answer, 400, "`telemetry.limits.max_attributes`")
        assert (await asyncio.to_thread(rows, config))["body"].to_pylist() == ["small"]

    run(config, scenario)


def test_the_same_bytes_again_are_stored_once(tmp_path: Path) -> None:
    config = settings(tmp_path)
    timed, untimed = push_body("a", "b"), push_body("c", time=0)

    async def scenario(served: Served) -> None:
        async def send(body: bytes, tenant: str = "default") -> int:
            before = served.stored()
            assert (await push(served, body, x_scope_orgid=tenant)).status_code == 204
            return served.stored() - before

        assert [await send(timed) for _ in range(3)] == [2, 0, 0]
        assert await send(timed, "other") == 2
        assert await send(push_body("a", "b", time=5)) == 2
        assert [await send(untimed), await send(untimed)] == [1, 1]

    run(config, scenario)

    async def after_a_restart(served: Served) -> None:
        assert (await push(served, timed)).status_code == 204
        assert served.stored() == 8

    run(config, after_a_restart)


def test_tenants_see_their_own(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        for tenant in ("one", "two"):
            assert (await push(served, push_body(f"of {tenant}"), x_scope_orgid=tenant)).status_code == 204
        assert (await push(served, push_body("of nobody"))).status_code == 204
        for tenant, line in {"one": "of one", "two": "of two", "default": "of nobody"}.items():
            assert (await asyncio.to_thread(rows, config, tenant=tenant))["body"].to_pylist() == [line]

    run(config, scenario)


def test_tenants_have_a_rate(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = push_body("x" * 700_000)
        assert (await push(served, body, x_scope_orgid="one")).status_code == 204
        answer = await push(served, body, x_scope_orgid="one")
        explained(answer, 429, "`telemetry.limits.rate_mb`")
        assert int(answer.headers["retry-after"]) >= 1
        assert (await push(served, body, x_scope_orgid="two")).status_code == 204

    run(settings(tmp_path, telemetry={"limits": {"rate_mb": 0.01, "burst_mb": 1}}), scenario)


def test_what_the_log_does_not_take_is_to_come_again(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def while_the_log_stops(served: Served) -> None:
        assert (await push(served, push_body("a"))).status_code == 204
        await served.log_part.stop()
        answer = await push(served, push_body("b"))
        explained(answer, 503, "logs/0 is shutting down.")
        assert int(answer.headers["retry-after"]) >= 1

    run(config, while_the_log_stops)

    async def later(served: Served) -> None:
        assert (await push(served, push_body("b"))).status_code == 204
        assert sorted((await asyncio.to_thread(rows, config))["body"].to_pylist()) == ["a", "b"]

    run(config, later)


def test_many_requests_at_once_and_bad_ones_among_them(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        bodies = [push_body(f"line {number}") for number in range(100)]
        bodies[17] = b"\xff" * 20
        bodies[40] = push_body("line 40", labels="{a=")
        bodies[60] = snappy(b"\x0a\x05\x12\x03\x12\x09x")
        bodies[80] = snappy(message(({"a": "x" * 1_000_000}, [(TIME, "", {})] * 2000)))
        answers = await asyncio.gather(*(push(served, body) for body in bodies))
        bad = {17, 40, 60, 80}
        assert {number for number, answer in enumerate(answers) if answer.status_code != 204} == bad
        assert {answers[number].status_code for number in bad} == {400}
        assert "The records would be" in answers[80].text
        found = await asyncio.to_thread(rows, config)
        assert sorted(found["body"].to_pylist()) == sorted(f"line {n}" for n in range(100) if n not in bad)

    run(config, scenario)


def test_rows_of_otlp_and_of_loki_are_in_one_table(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        assert (await push(served, push_body("a"))).status_code == 204
        body = logs_request("b").SerializeToString()
        assert (await served.post("/otlp/v1/logs", body, api="loki")).status_code == 200
        found = await asyncio.to_thread(rows, config)
        assert found["body"].to_pylist() == ["a", "b"]
        assert found["service_name"].to_pylist() == ["shop", "shop"]

    run(config, scenario)


def test_other_methods_and_paths(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert (await served.client.get(served.url("loki") + PATH)).status_code == 405
        assert (await served.post("/loki/api/v1/nothing", b"", api="loki")).status_code == 404
        assert (await served.client.get(served.url("loki") + "/ready")).status_code == 200

    run(settings(tmp_path), scenario)
