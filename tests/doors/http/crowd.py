"""What tests beside this share."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.doors.process import IngestProcess
from tests.servers.child import free_ports

MESSAGES, LENGTH = 20_000, 1000


@contextmanager
def running(folder: Path) -> Iterator[tuple[IngestProcess, httpx.Client]]:
    (port,) = free_ports(1)
    process = IngestProcess(folder, {"server": {"port": port}, "buffer": {"max_size_mb": 1}}, {})
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            _wait(process, client)
            yield process, client
    finally:
        process.stop()


def _wait(process: IngestProcess, client: httpx.Client) -> None:
    while process.child.alive:
        try:
            if client.get("/topics").status_code == 200:
                return
        except httpx.TransportError:
            continue
    raise AssertionError(process.child.log())


def restarted(process: IngestProcess, client: httpx.Client) -> None:
    """After a restart everything is sealed, and nothing is in memory."""
    process.stop()
    process.start()
    _wait(process, client)


def fill(client: httpx.Client, topic: str) -> None:
    rng = random.Random(1)
    assert client.put(f"/topics/{topic}").status_code == 201
    for start in range(0, MESSAGES, 4000):
        lines = (
            json.dumps({"payload": f"{number:08}{rng.randbytes((LENGTH - 8) // 2).hex()}"})
            for number in range(start, start + 4000)
        )
        stored = client.post(
            f"/topics/{topic}", content="\n".join(lines), headers={"content-type": "application/x-ndjson"}
        )
        assert stored.status_code == 200, stored.text


def readers_bytes(client: httpx.Client) -> int:
    found = re.findall(r'^frazil_topics_readers_bytes\{kind="\w+"\} (\S+)$', client.get("/metrics").text, re.M)
    assert len(found) == 2
    return int(sum(map(float, found)))
