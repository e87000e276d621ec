"""Tests many clients of a stream at once, most of which never read, with real sockets and a real process."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from frazil.config.sections.section import MIB
from frazil.doors.http import slow_clients
from frazil.topics.read.memory_budget import LEAST_BYTES
from tests.doors.http.crowd import MESSAGES, fill, readers_bytes, restarted, running
from tests.doors.http.support import Served, serving

CLIENTS = 60


def test_clients_that_never_read_hold_little_memory_and_keep_nobody_waiting(tmp_path: Path) -> None:
    with running(tmp_path) as (process, client), ExitStack() as open_sockets:
        fill(client, "orders")
        restarted(process, client)
        address = (client.base_url.host, client.base_url.port)
        before = process.memory("VmRSS")
        for _ in range(CLIENTS):
            idle = open_sockets.enter_context(socket.create_connection(address))
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            idle.sendall(b"GET /topics/orders/stream?offset=earliest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert idle.recv(12) == b"HTTP/1.1 200"
        at, most = 0, 0
        with client.stream("GET", "/topics/orders/stream?offset=earliest") as answer:
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    assert json.loads(line[5:])["payload"].startswith(f"{at:08}")
                    at += 1
                    if at % 2000 == 0:
                        most = max(most, readers_bytes(client))
                    if at == MESSAGES:
                        break
        grown = process.memory("VmHWM") - before
        assert most <= 128 * MIB, "the setting messages.max_memory_mb"
        assert grown < 300 * MIB, f"{grown / MIB:.0f} MiB"


def test_with_little_memory_every_stream_gets_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some messages are larger than all the memory for streams."""
    monkeypatch.setattr(slow_clients, "CROWDED_STALL_SECONDS", 0.2)
    monkeypatch.setattr(slow_clients, "CHECK_SECONDS", 0.1)
    rng = random.Random(7)
    sizes = [rng.choice([10, 1000, 100_000, 300_000, 3_000_000]) for _ in range(60)]
    limit = 2 * MIB

    async def use(served: Served) -> None:
        await served.create("orders", 3)
        for number, size in enumerate(sizes):
            await served.store("orders", str(number).ljust(size), query=f"?partition={number % 3}")
            if number % 10 == 9:
                for partition in range(3):
                    served.seal("orders", partition)
        memory = served.part._topics().memory
        most = 0

        async def follow() -> None:
            """Behaves like an event source: a client that is dropped comes back for the rest."""
            nonlocal most
            found: list[int] = []
            last = "0:-1,1:-1,2:-1"
            while len(found) < len(sizes):
                headers = {"last-event-id": last} if found else {}
                try:
                    async with served.stream("/topics/orders/stream?offset=earliest", **headers) as stream:
                        async for event in stream:
                            found.append(int(json.loads(event["data"])["payload"]))
                            last = event["id"]
                            most = max(most, memory.held)
                            if len(found) == len(sizes):
                                break
                except httpx.TransportError:
                    continue
            for partition in range(3):
                mine = [number for number in found if number % 3 == partition]
                assert mine == list(range(partition, len(sizes), 3))

        url = served.client.base_url
        idle = []
        for _ in range(10):
            reader, writer = await asyncio.open_connection(url.host, url.port, limit=1)
            writer.write(b"GET /topics/orders/stream?offset=earliest HTTP/1.1\r\nhost: frazil\r\n\r\n")
            assert await reader.read(8) == b"HTTP/1.1"
            idle.append(writer)
        await asyncio.gather(*(follow() for _ in range(5)))
        for writer in idle:
            writer.close()
        largest = 2 * max(sizes)
        assert most <= limit // 2 + 15 * LEAST_BYTES + largest

    serving(tmp_path, use, messages={"max_memory_mb": limit // MIB})
