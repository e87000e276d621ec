"""When too much arrives, it is refused at once, what is acknowledged is stored, and the server recovers by itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import httpx
import pytest
from google.rpc.status_pb2 import Status

from frazil.doors.loki.push import PUSH
from frazil.doors.otlp.signals import LOGS
from frazil.doors.telemetry.conversion import TelemetryRequest
from frazil.doors.telemetry.intake import Accepted, Intake, _WaitingRequest
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.unstored_rows import UnstoredRows
from frazil.doors.telemetry.writers import Writers
from frazil.ops.metrics import create_registry
from frazil.web import bodies
from tests.doors.telemetry.conversion import converter
from tests.doors.telemetry.support import (
    PROTOBUF,
    Served,
    logs_request,
    rows,
    run,
    sent_while_away,
    settings,
    small_log_on,
)
from tests.formats.loki.support import message
from tests.servers.proxy import Proxy

MIB = 1 << 20


def test_more_at_once_than_there_is_room_for(tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry={"max_in_flight_mb": 1})

    async def scenario(served: Served) -> None:
        async def send(number: int) -> httpx.Response:
            body = logs_request(f"{number} {'x' * 100_000}").SerializeToString()
            return await served.post("/v1/logs", body)

        answers = await asyncio.gather(*(send(number) for number in range(200)))
        statuses = Counter(answer.status_code for answer in answers)
        assert set(statuses) == {200, 429}
        assert all(int(each.headers["retry-after"]) >= 1 for each in answers if each.status_code == 429)
        stored = {number for number, answer in enumerate(answers) if answer.status_code == 200}
        found = (await asyncio.to_thread(rows, config))["body"].to_pylist()
        assert sorted(int(body.split()[0]) for body in found) == sorted(stored)
        assert (await send(1000)).status_code == 200

    run(config, scenario)


async def begin(served: Served, nbytes: int, *headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Sends only the head of a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(served.url("otlp")).port)
    head = ["POST /v1/logs HTTP/1.1", "host: x", f"content-type: {PROTOBUF['content-type']}", *headers]
    writer.write("\r\n".join([*head, f"content-length: {nbytes}", "", ""]).encode())
    return reader, writer


def test_a_refusal_waits_for_nothing(tmp_path: Path) -> None:
    """A refusal waits neither for accepted requests nor for its own body, which nobody would read."""

    async def scenario(served: Served) -> None:
        slow = logs_request("x" * 900_000).SerializeToString()
        answer, sending = await begin(served, len(slow))
        sending.write(slow[:-1000])
        while (await status_of(served, 200_000)) != 429:
            await asyncio.sleep(0.02)
        sending.write(slow[-1000:])
        assert b" 200 " in await answer.readline()
        sending.close()
        assert served.stored() == 1
        small = logs_request("small").SerializeToString()
        assert (await served.post("/v1/logs", small)).status_code == 200

    async def status_of(served: Served, nbytes: int) -> int:
        """Returns the status that answers the head of a request; 0 if there is no answer, as long as there is
        room."""
        answer, sending = await begin(served, nbytes)
        try:
            return int((await asyncio.wait_for(answer.readline(), 1)).split()[1])
        except TimeoutError:
            return 0
        finally:
            sending.close()

    run(settings(tmp_path, telemetry={"max_in_flight_mb": 1}), scenario)


def test_what_is_promised_takes_no_room(tmp_path: Path) -> None:
    """Only received bytes count: a client that announces much and sends nothing blocks nobody."""

    async def scenario(served: Served) -> None:
        idle = [await begin(served, MIB, "expect: 100-continue") for _ in range(4)]
        for answer, _ in idle:
            # It was let in, and the server waits for its body.
            assert b" 100 " in await answer.readline()
        body = logs_request("x" * 900_000).SerializeToString()
        assert (await served.post("/v1/logs", body)).status_code == 200
        for _, sending in idle:
            sending.close()

    run(settings(tmp_path, telemetry={"max_in_flight_mb": 1}), scenario)


def test_a_request_that_is_alone_may_be_larger_than_the_room(tmp_path: Path) -> None:
    """This holds however many parts the body comes in."""

    async def scenario(served: Served) -> None:
        body = logs_request(*["x" * 500_000] * 6).SerializeToString()
        assert (await served.post("/v1/logs", body)).status_code == 200
        assert served.stored() == 6

    run(settings(tmp_path, telemetry={"max_in_flight_mb": 1}), scenario)


@pytest.mark.parametrize("drips", [False, True])
def test_a_body_that_is_never_complete_gives_its_room_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drips: bool
) -> None:
    monkeypatch.setattr(bodies, "SILENCE_SECONDS", 60 if drips else 0.2)
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.5 if drips else 60)

    async def scenario(served: Served) -> None:
        body = logs_request("x" * 900_000).SerializeToString()
        answer, sending = await begin(served, len(body))
        sending.write(body[:-100])
        for _ in range(9 if drips else 0):
            await asyncio.sleep(0.01)
            sending.write(b"x")
        # This reads to the end: the connection is closed.
        head, _, _ = (await answer.read()).partition(b"\r\n\r\n")
        # Clients retry after this status, and would drop the request after a 408.
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1" in head
        sending.close()
        assert (await served.post("/v1/logs", body)).status_code == 200
        assert served.stored() == 1

    run(settings(tmp_path, telemetry={"max_in_flight_mb": 1}), scenario)


def test_a_body_that_comes_slowly_but_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence counts from the last bytes."""
    monkeypatch.setattr(bodies, "SILENCE_SECONDS", 2.0)

    async def scenario(served: Served) -> None:
        body = logs_request("slow").SerializeToString()
        answer, sending = await begin(served, len(body))
        for part in (body[:10], body[10:20], body[20:]):
            await asyncio.sleep(1.2)
            sending.write(part)
        assert (await answer.readline()).startswith(b"HTTP/1.1 200 ")
        sending.close()

    run(settings(tmp_path), scenario)


def test_what_could_become_large_is_left_to_a_thread(tmp_path: Path) -> None:
    """This holds even for small requests, because the event loop has other work."""
    plain = logs_request(*(f"record {number}" for number in range(10))).SerializeToString()
    empty_records = b"\x0a\x82\x1f\x12\xff\x1e" + b"\x12\x00" * 1983 + b"\x1a"

    async def scenario(served: Served) -> None:
        writers, metrics = Writers(served.log), TelemetryMetrics(create_registry())
        intake = Intake(LOGS.requests, converter(), writers, metrics, UnstoredRows(1))

        def waiting(given: Iterable[TelemetryRequest]) -> list[_WaitingRequest]:
            future = asyncio.get_running_loop().create_future()
            return [_WaitingRequest(request, future) for request in given]

        def is_small(*given: TelemetryRequest) -> bool:
            return intake._is_small(waiting(given))

        def is_light(*given: TelemetryRequest) -> bool:
            return intake._is_light(waiting(given))

        assert is_small(TelemetryRequest("one", plain))
        assert is_small(*[TelemetryRequest("one", plain)] * 64)
        assert is_light(*[TelemetryRequest("one", plain)] * 64)
        assert not is_light(TelemetryRequest("one", empty_records))
        assert not is_light(TelemetryRequest("one", plain), TelemetryRequest("one", empty_records))
        assert not is_small(TelemetryRequest("one", plain, encoding="gzip"))
        assert not is_small(TelemetryRequest("one", plain, json=True))
        assert not is_small(TelemetryRequest("one", bytes(20_000)))
        assert not is_small(*[TelemetryRequest("one", plain)] * 129)
        assert not is_small(*[TelemetryRequest("one", plain * 50)] * 30)

    run(settings(tmp_path), scenario)


def test_who_goes_while_waiting_leaves_nothing_behind(tmp_path: Path) -> None:
    """The room of a request is given back when its call is cancelled, so its body must be freed then."""

    async def scenario(served: Served) -> None:
        unstored = UnstoredRows(1)
        unstored.change(1)
        intake = Intake(PUSH, converter(), Writers(served.log), TelemetryMetrics(create_registry()), unstored)
        body = message(({"a": "b"}, [(1, "x" * MIB, {})]))
        held = sys.getrefcount(body)
        call = asyncio.create_task(intake.take(TelemetryRequest("one", body)))
        while not intake._waiting:
            await asyncio.sleep(0)
        assert sys.getrefcount(body) > held
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        del call
        assert sys.getrefcount(body) == held
        other = asyncio.create_task(intake.take(TelemetryRequest("one", message(({"a": "b"}, [(1, "y", {})])))))
        unstored.change(-1)
        assert await other == Accepted()
        assert served.stored(PUSH.topic) == 1

    run(settings(tmp_path), scenario)


async def parts() -> AsyncIterator[bytes]:
    """The last part is too much."""
    for _ in range(2):
        yield bytes(600_000)


def test_who_sends_a_large_body_sees_why_it_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The client gets an answer, not a reset connection while it sends the body, and can use the connection again."""

    async def scenario(served: Served) -> None:
        body = bytes(16 * MIB)
        port = httpx.URL(served.url("otlp")).port
        for _ in range(5):
            assert (await served.post("/v1/logs", body)).status_code == 413
            assert (await served.post("/v1/logs", body, content_type="text/plain")).status_code == 415
            assert (await served.post("/v1/logs", body, x_scope_orgid="a/b")).status_code == 400
            assert (await served.post("/v1/logs", logs_request("a").SerializeToString())).status_code == 200
            unsized = await served.client.post(served.url("otlp") + "/v1/logs", content=parts(), headers=PROTOBUF)
            assert unsized.status_code == 413
        # A client that disconnects in the middle is not an error.
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body[:MIB]
        )
        writer.close()
        assert (await served.post("/v1/logs", logs_request("b").SerializeToString())).status_code == 200
        assert served.stored() == 2

    run(settings(tmp_path, telemetry={"max_body_mb": 1}), scenario)
    assert not caplog.messages


# --- what the door stands on fails ------------------------------------------------------------------------


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "tests.doors.otlp.full_disk"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr


def test_a_log_that_is_full_because_the_store_is_away(s3_proxy: Proxy, s3_prefix: str, tmp_path: Path) -> None:
    config = settings(tmp_path, **small_log_on(s3_proxy, s3_prefix))

    async def scenario(served: Served) -> None:
        async def send(number: int) -> int:
            body = logs_request(f"{number} {'x' * 200_000}").SerializeToString()
            return (await served.post("/v1/logs", body)).status_code

        acknowledged = await sent_while_away(s3_proxy, send, stored=200, full=429)
        found = (await asyncio.to_thread(rows, config))["body"].to_pylist()
        assert sorted(int(body.split()[0]) for body in found) == acknowledged

    run(config, scenario)


def test_a_store_that_acknowledges_and_is_away(s3_proxy: Proxy, s3_prefix: str, tmp_path: Path) -> None:
    config = settings(tmp_path, **small_log_on(s3_proxy, s3_prefix), topics={"logs": {"ack": "object"}})

    async def scenario(served: Served) -> None:
        async def send(text: str) -> httpx.Response:
            return await served.post("/v1/logs", logs_request(text).SerializeToString())

        assert (await send("first")).status_code == 200
        s3_proxy.down()
        answer = await send("second")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "The object store has not taken the records" in Status.FromString(answer.content).message
        s3_proxy.up()
        while (await send("second")).status_code != 200:
            await asyncio.sleep(0.2)
        found = (await asyncio.to_thread(rows, config))["body"].to_pylist()
        assert sorted(found) == ["first", "second"]

    run(config, scenario)
