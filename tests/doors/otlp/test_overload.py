"""More comes than can be taken: it is refused at once, what is acknowledged is there, and it goes on by itself."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from google.rpc.status_pb2 import Status

from frazil.doors import bodies
from frazil.doors.loki.push import PUSH
from frazil.doors.otlp.signals import LOGS
from frazil.doors.telemetry.backlog import Backlog
from frazil.doors.telemetry.intake import Accepted, Intake, _Waiting
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.preparing import Request
from frazil.doors.telemetry.writers import Writers
from frazil.ops.metrics import create_registry
from frazil.query.reading import read
from tests.doors.telemetry.process import DoorProcess
from tests.doors.telemetry.support import (
    PROTOBUF,
    TIME,
    Served,
    logs_request,
    rows,
    run,
    sent_while_away,
    settings,
    small_log_on,
)
from tests.doors.telemetry.test_preparing import preparer
from tests.servers.proxy import Proxy
from tests.telemetry.test_loki import message

CONNECTIONS = 64
QUICK_SECONDS = 1.0
"""A refusal takes some milliseconds; the machine may have others to see to, and so may whoever sends."""
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
    """Send the head of a request alone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(served.url("otlp")).port)
    head = ["POST /v1/logs HTTP/1.1", "host: x", f"content-type: {PROTOBUF['content-type']}", *headers]
    writer.write("\r\n".join([*head, f"content-length: {nbytes}", "", ""]).encode())
    return reader, writer


def test_a_refusal_waits_for_nothing(tmp_path: Path) -> None:
    """Neither for those who are let in nor for its own body, which nobody would read."""

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
        """What is answered to the head of a request alone; 0 if nothing is, as long as there is room."""
        answer, sending = await begin(served, nbytes)
        try:
            return int((await asyncio.wait_for(answer.readline(), 1)).split()[1])
        except TimeoutError:
            return 0
        finally:
            sending.close()

    run(settings(tmp_path, telemetry={"max_in_flight_mb": 1}), scenario)


def test_what_is_promised_takes_no_room(tmp_path: Path) -> None:
    """Only what has come does: who promises much and sends nothing is in nobody's way."""

    async def scenario(served: Served) -> None:
        idle = [await begin(served, MIB, "expect: 100-continue") for _ in range(4)]
        for answer, _ in idle:
            # It was let in, and its body is waited for.
            assert b" 100 " in await answer.readline()
        body = logs_request("x" * 900_000).SerializeToString()
        assert (await served.post("/v1/logs", body)).status_code == 200
        for _, sending in idle:
            sending.close()

    run(settings(tmp_path, telemetry={"max_in_flight_mb": 1}), scenario)


def test_a_request_that_is_alone_may_be_larger_than_the_room(tmp_path: Path) -> None:
    """However many parts it comes in."""

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
        # To the end: the connection is closed.
        head, _, _ = (await answer.read()).partition(b"\r\n\r\n")
        # Clients send again what is answered so, and drop it after a 408.
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1" in head
        sending.close()
        assert (await served.post("/v1/logs", body)).status_code == 200
        assert served.stored() == 1

    run(settings(tmp_path, telemetry={"max_in_flight_mb": 1}), scenario)


def test_a_body_that_comes_slowly_but_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence counts from what was heard last."""
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
    """However small it is: the event loop has others to see to."""
    plain = logs_request(*(f"record {number}" for number in range(10))).SerializeToString()
    empty_records = b"\x0a\x82\x1f\x12\xff\x1e" + b"\x12\x00" * 1983 + b"\x1a"

    async def scenario(served: Served) -> None:
        writers, metrics = Writers(served.log), TelemetryMetrics(create_registry())
        intake = Intake(LOGS.requests, preparer(), writers, metrics, Backlog(1))

        def waiting(given: Iterable[Request]) -> list[_Waiting]:
            future = asyncio.get_running_loop().create_future()
            return [_Waiting(request, future) for request in given]

        def is_small(*given: Request) -> bool:
            return intake._is_small(waiting(given))

        def is_light(*given: Request) -> bool:
            return intake._is_light(waiting(given))

        assert is_small(Request("one", plain))
        assert is_small(*[Request("one", plain)] * 64)
        assert is_light(*[Request("one", plain)] * 64)
        assert not is_light(Request("one", empty_records))
        assert not is_light(Request("one", plain), Request("one", empty_records))
        assert not is_small(Request("one", plain, encoding="gzip"))
        assert not is_small(Request("one", plain, json=True))
        assert not is_small(Request("one", bytes(20_000)))
        assert not is_small(*[Request("one", plain)] * 129)
        assert not is_small(*[Request("one", plain * 50)] * 30)

    run(settings(tmp_path), scenario)


def test_who_goes_while_waiting_leaves_nothing_behind(tmp_path: Path) -> None:
    """The room that a request had is given back when its call is cancelled, so its body must be gone then."""

    async def scenario(served: Served) -> None:
        backlog = Backlog(1)
        backlog.change(1)
        intake = Intake(PUSH, preparer(), Writers(served.log), TelemetryMetrics(create_registry()), backlog)
        body = message(({"a": "b"}, [(1, "x" * MIB, {})]))
        held = sys.getrefcount(body)
        call = asyncio.create_task(intake.take(Request("one", body)))
        while not intake._waiting:
            await asyncio.sleep(0)
        assert sys.getrefcount(body) > held
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        del call
        assert sys.getrefcount(body) == held
        other = asyncio.create_task(intake.take(Request("one", message(({"a": "b"}, [(1, "y", {})])))))
        backlog.change(-1)
        assert await other == Accepted()
        assert served.stored(PUSH.topic) == 1

    run(settings(tmp_path), scenario)


async def parts() -> AsyncIterator[bytes]:
    """The last one is too much."""
    for _ in range(2):
        yield bytes(600_000)


def test_who_sends_a_large_body_sees_why_it_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not a connection that is reset while the body is on its way; and the connection is good for the next one."""

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
        # Who goes away in the middle is no problem of anybody's.
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body[:MIB]
        )
        writer.close()
        assert (await served.post("/v1/logs", logs_request("b").SerializeToString())).status_code == 200
        assert served.stored() == 2

    run(settings(tmp_path, telemetry={"max_body_mb": 1}), scenario)
    assert not caplog.messages


# --- the memory of a process ------------------------------------------------------------------------------


class Door(DoorProcess):
    def __init__(self, folder: Path, hold_ms: int | None, **telemetry: Any) -> None:
        """What is taken is held so long, if it is said, and is then acknowledged by the store."""
        # What is stored is kept in memory too, as far as these allow.
        log: dict[str, Any] = {"max_tail_mb": 32, "seal": {"max_mb": 8}}
        topics = {}
        if hold_ms is not None:
            log["linger_ms"], topics = hold_ms, {"logs": {"ack": "object"}}
        super().__init__(folder, telemetry=telemetry, log=log, topics=topics, buffer={"max_size_mb": 32})
        self.url = f"http://127.0.0.1:{self.ports.http}/v1/logs"

    def stored(self) -> Counter[str]:
        """How many records each service has."""
        found = read("logs", config=self.config, columns=["service_name"]).table()["service_name"].value_counts()
        return Counter({each["values"].as_py(): each["counts"].as_py() for each in found})


@contextmanager
def door(folder: Path, hold_ms: int | None = None, **telemetry: Any) -> Iterator[Door]:
    opened = Door(folder, hold_ms, **telemetry)
    try:
        until = time.monotonic() + 60
        while not listens(opened.url):
            assert opened.child.alive, opened.child.log()
            assert time.monotonic() < until, opened.child.log()
            time.sleep(0.05)
        yield opened
    finally:
        opened.stop()


def listens(url: str) -> bool:
    try:
        # The first request opens the topic.
        return httpx.post(url, content=request("first", 1), headers=PROTOBUF, timeout=30).status_code == 200
    except httpx.TransportError:
        return False


RECORDS = 100
_LINE = "the order is late and nobody knows why, so somebody should have a look at it " * 3


def request(service: str, blocks: int) -> bytes:
    """With `blocks` times `RECORDS` records, of about 25 KiB each."""
    block: bytes = logs_request(*[_LINE] * RECORDS, time=TIME, service=service).SerializeToString()
    return block * blocks


def posted(number: int, body: bytes) -> bytes:
    """A whole request of HTTP; every third body is compressed."""
    packed = number % 3 == 0
    body = gzip.compress(body, 1) if packed else body
    head = f"POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: {PROTOBUF['content-type']}\r\n"
    encoding = "content-encoding: gzip\r\n" if packed else ""
    return f"{head}{encoding}content-length: {len(body)}\r\n\r\n".encode() + body


class Answer(NamedTuple):
    status: int
    seconds: float


def median_seconds(answers: Iterable[Answer], status: int) -> float:
    return statistics.median(answer.seconds for answer in answers if answer.status == status)


class Connection:
    """As quick as a client can be that is written in Python."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", httpx.URL(url).port))

    async def send(self, request: bytes) -> Answer:
        """Who is to come again is told when."""
        begun = time.perf_counter()
        self._writer.write(request)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        await self._reader.readexactly(int(headers.get("content-length", "0")))
        status = int(head.split()[1])
        assert status == 200 or int(headers["retry-after"]) >= 1
        return Answer(status, time.perf_counter() - begun)

    def close(self) -> None:
        self._writer.close()


@pytest.mark.timeout(300)
def test_much_more_than_it_takes(tmp_path: Path, seed: int) -> None:
    """Large and small bodies, plain and compressed, from many connections that never pause."""
    chance = random.Random(seed)
    sizes = [chance.choice((1, 1, 20, 40)) for _ in range(CONNECTIONS * 15)]
    offered = [posted(number, request(f"service-{number}", size)) for number, size in enumerate(sizes)]
    answers: dict[int, Answer] = {}

    async def offer(url: str) -> None:
        numbers = iter(range(len(sizes)))
        connections = [await Connection.open(url) for _ in range(CONNECTIONS)]

        async def send_on(connection: Connection) -> None:
            for number in numbers:
                answers[number] = await connection.send(offered[number])

        await asyncio.gather(*map(send_on, connections))
        assert {answer.status for answer in answers.values()} == {200, 429}
        assert median_seconds(answers.values(), 429) < QUICK_SECONDS
        # Afterwards there is room for everybody, one at a time.
        again = [number for number, answer in answers.items() if answer.status == 429][:20]
        answers.update({number: await connections[0].send(offered[number]) for number in again})
        assert {answers[number].status for number in again} == {200}
        for connection in connections:
            connection.close()

    with door(tmp_path, max_in_flight_mb=1, max_body_mb=4) as opened:
        before = opened.memory("VmRSS")
        asyncio.run(offer(opened.url))
        grown = opened.memory("VmHWM") - before
        assert grown < 400 * MIB, f"{grown:,} bytes"
        stored = [number for number, answer in answers.items() if answer.status == 200]
        found = opened.stored()
        assert found.pop("first") == RECORDS
        assert found == {f"service-{number}": sizes[number] * RECORDS for number in stored}


@pytest.mark.timeout(300)
def test_ten_times_what_it_takes(tmp_path: Path) -> None:
    """What is taken is held for a second, however quick the machine is, and there is room for five of these requests.
    The others are told so at once, and come again at once."""
    shared = request("shared", 8)
    answers: dict[int, Answer] = {}

    async def offer(url: str) -> None:
        connections = [await Connection.open(url) for _ in range(16)]
        until = time.monotonic() + 3
        numbers = itertools.count()

        async def send_on(connection: Connection) -> None:
            while time.monotonic() < until:
                number = next(numbers)
                own: bytes = logs_request("own", service=f"service-{number}").SerializeToString()
                answers[number] = await connection.send(posted(1, own + shared))

        await asyncio.gather(*map(send_on, connections))
        for connection in connections:
            connection.close()

    with door(tmp_path, hold_ms=1000, max_in_flight_mb=1) as opened:
        before = opened.memory("VmRSS")
        asyncio.run(offer(opened.url))
        grown = opened.memory("VmHWM") - before
        assert grown < 400 * MIB, f"{grown:,} bytes"
        stored = [number for number, answer in answers.items() if answer.status == 200]
        assert {answer.status for answer in answers.values()} == {200, 429}
        assert len(answers) >= 10 * len(stored)
        assert median_seconds(answers.values(), 429) < QUICK_SECONDS
        found = opened.stored()
        assert found.pop("first") == RECORDS
        assert found.pop("shared") == len(stored) * 8 * RECORDS
        assert found == {f"service-{number}": 1 for number in stored}


@pytest.mark.timeout(300)
def test_small_bodies_that_become_large_take_no_more_memory_than_there_is(tmp_path: Path) -> None:
    """All are let in, and each is a hundred times larger than it came."""
    blocks = 8 * MIB // len(request("x", 1))
    bodies = {
        f"service-{number}": gzip.compress(request(f"service-{number}", blocks)) for number in range(CONNECTIONS)
    }
    assert max(map(len, bodies.values())) < 8 * MIB // 50

    async def offer(url: str) -> list[int]:
        headers = {**PROTOBUF, "content-encoding": "gzip"}
        async with httpx.AsyncClient(timeout=240, limits=httpx.Limits(max_connections=CONNECTIONS)) as client:
            answers = (client.post(url, content=body, headers=headers) for body in bodies.values())
            return [answer.status_code for answer in await asyncio.gather(*answers)]

    with door(tmp_path, max_in_flight_mb=16, max_body_mb=8) as opened:
        before = opened.memory("VmRSS")
        statuses = dict(zip(bodies, asyncio.run(offer(opened.url)), strict=True))
        grown = opened.memory("VmHWM") - before
        assert set(statuses.values()) <= {200, 429}
        found = opened.stored()
        assert found.pop("first") == RECORDS
        assert found == {service: blocks * RECORDS for service, status in statuses.items() if status == 200}
        assert grown < 600 * MIB, f"{grown:,} bytes for {CONNECTIONS} bodies of 8 MiB"


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
