"""When far more arrives than a process can take, answers are quick, memory is bounded, and what was acknowledged is
stored."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import random
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.doors.otlp.overloading import RECORDS, door, request
from tests.doors.telemetry.support import (
    PROTOBUF,
    logs_request,
)

CONNECTIONS = 64
QUICK_SECONDS = 1.0
"""A refusal takes some milliseconds, but the machine and the client may be busy."""
MIB = 1 << 20


def posted(number: int, body: bytes) -> bytes:
    """Returns a whole HTTP request; every third body is compressed."""
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
    """A client that is as fast as one in Python can be."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", httpx.URL(url).port))

    async def send(self, request: bytes) -> Answer:
        """Sends a request, and checks that an answer that asks for a retry says when."""
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


def test_much_more_than_it_takes(tmp_path: Path, seed: int) -> None:
    """Many connections send large and small bodies, plain and compressed, without a pause."""
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


def test_ten_times_what_it_takes(tmp_path: Path) -> None:
    """Accepted requests are held for a second, however fast the machine is, and there is room for five of them. The
    others are refused at once, and retry at once."""
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


def test_small_bodies_that_become_large_take_no_more_memory_than_there_is(tmp_path: Path) -> None:
    """All requests are let in, and each grows to a hundred times its size."""
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
