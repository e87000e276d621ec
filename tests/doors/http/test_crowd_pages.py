"""Tests many clients of pages and subscriptions, most of which never read, with real sockets and a real process."""

from __future__ import annotations

import asyncio
import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from frazil.config.sections.section import MIB
from frazil.doors.http import slow_clients
from frazil.topics.read.memory_budget import LEAST_BYTES, MemoryBudget
from tests.doors.http.crowd import MESSAGES, fill, readers_bytes, restarted, running
from tests.doors.http.support import Served, serving

CLIENTS = 150
LIMIT = 2 * MIB


def test_pages_that_nobody_takes_hold_little_memory_and_keep_nobody_waiting(tmp_path: Path) -> None:
    with running(tmp_path) as (process, client), ExitStack() as open_sockets:
        fill(client, "orders")
        restarted(process, client)
        before = process.memory("VmRSS")
        for number in range(CLIENTS):
            idle = open_sockets.enter_context(socket.socket())
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            idle.connect((client.base_url.host, client.base_url.port))
            path = f"/topics/orders?limit=10000&offset={number}"
            idle.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert idle.recv(12) == b"HTTP/1.1 200"
        at, following = 0, "earliest"
        while at < MESSAGES:
            page = client.get("/topics/orders", params={"offset": following, "limit": 10_000}).json()
            for message in page["messages"]:
                assert message["payload"].startswith(f"{at:08}")
                at += 1
            assert page["messages"]
            following = page["next"]
        assert readers_bytes(client) <= 128 * MIB, "the setting messages.max_memory_mb"
        grown = process.memory("VmHWM") - before
        assert grown < 450 * MIB, f"{grown / MIB:.0f} MiB"


async def ask_and_never_read(served: Served, request: str) -> asyncio.StreamWriter:
    url = served.client.base_url
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (url.host, url.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=1)
    writer.write(f"{request} HTTP/1.1\r\nhost: frazil\r\n\r\n".encode())
    assert await reader.read(8) == b"HTTP/1.1"
    return writer


async def until_free(memory: MemoryBudget) -> None:
    while memory.held:
        await asyncio.sleep(0.02)


async def asked(served: Served, method: str, path: str) -> Any:
    """Repeats the request as often as needed, because slow clients are dropped while others wait."""
    while True:
        try:
            return await served.ask(method, path)
        except httpx.TransportError:
            continue


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch, seed: int) -> list[int]:
    """Returns sizes of messages, some of which are larger than all the memory for readers."""
    monkeypatch.setattr(slow_clients, "CROWDED_STALL_SECONDS", 0.3)
    monkeypatch.setattr(slow_clients, "CHECK_SECONDS", 0.1)
    rng = random.Random(seed)
    return [rng.choice([10, 1000, 100_000, 300_000, 3_000_000]) for _ in range(60)]


def test_with_little_memory_every_reader_of_pages_gets_each_message_once(tmp_path: Path, sizes: list[int]) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 3)
        for number, size in enumerate(sizes):
            await served.store("orders", str(number).ljust(size), query=f"?partition={number % 3}")
        memory, most = served.part._topics().memory, 0

        async def read() -> None:
            nonlocal most
            found: list[int] = []
            following = "earliest"
            while len(found) < len(sizes):
                page = await asked(served, "GET", f"/topics/orders?offset={following}")
                following = page["next"]
                found += [int(message["payload"]) for message in page["messages"]]
                most = max(most, memory.held)
            assert sorted(found) == list(range(len(sizes)))

        idle = [await ask_and_never_read(served, "GET /topics/orders") for _ in range(10)]
        await asyncio.gather(*(read() for _ in range(5)))
        assert most <= LIMIT // 2 + 15 * (LEAST_BYTES + slow_clients.RUN_BYTES) + 2 * max(sizes)
        for writer in idle:
            writer.close()
        assert (await served.client.head("/topics/orders")).status_code == 200
        assert (await served.client.get("/topics/orders?partition=9")).status_code == 400
        await asyncio.wait_for(until_free(memory), 20)

    serving(tmp_path, use, messages={"max_memory_mb": LIMIT // MIB})


def test_with_little_memory_consumers_receive_in_parts(tmp_path: Path, sizes: list[int]) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        one = "/topics/orders/subscriptions/{}"
        names = ["all", *(f"idle-{number}" for number in range(10))]
        for name in names:
            await served.ask("PUT", one.format(name), 201)
        for number, size in enumerate(sizes):
            await served.store("orders", str(number).ljust(size))
        asking = [f"POST {one.format(name)}/receive?consumer=c&limit=1000" for name in names[1:]]
        idle = [await ask_and_never_read(served, each) for each in asking]
        found: list[int] = []
        while len(found) < len(sizes):
            got = await asked(served, "POST", f"{one.format('all')}/receive?consumer=c&limit=1000")
            payloads = [message["payload"] for message in got["messages"]]
            found += map(int, payloads)
            assert len(payloads) == 1 or sum(map(len, payloads)) <= LIMIT // 2 + slow_clients.RUN_BYTES
            await served.ask("POST", f"{one.format('all')}/ack?offsets={got['ack']}")
        assert found == list(range(len(sizes)))
        for writer in idle:
            writer.close()

    serving(tmp_path, use, messages={"max_memory_mb": LIMIT // MIB})


def test_what_is_too_much_for_one_answer_comes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "PAGE_BYTES", 300_000)

    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", *(f"{number}".ljust(1000) for number in range(2000)))
        one = "/topics/orders/subscriptions/all"
        await served.ask("PUT", f"{one}?offset=earliest", 201)
        found: list[int] = []
        while len(found) < 2000:
            got = await served.ask("POST", f"{one}/receive?consumer=c&limit=1000")
            assert 0 < len(got["messages"]) <= 300
            found += [int(message["payload"]) for message in got["messages"]]
            await served.ask("POST", f"{one}/ack?offsets={got['ack']}")
        assert found == list(range(2000))

    serving(tmp_path, use)
