"""What other users of the machine get of a running Frazil with its pipeline: no file, and no port that obeys them."""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.cli.support import Served, serving

ROWS = 20
SOON = 240.0
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


COMMANDS = (b"g\nnobody\ne\n", b"r\nu\njava.lang.System\nrj\ne\n")
"""Of py4j, to a callback port and to a gateway, without their tokens; obeyed, they are answered with a `y`."""


class Listener(NamedTuple):
    port: int
    address: str
    commands: str
    """Of the processes that have it."""


def descendants(pid: int) -> Iterator[int]:
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:
            # A thread that is gone since.
            continue
        for child in children:
            yield from descendants(int(child))


def sockets(pid: int) -> set[str]:
    found = set()
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found.add(os.readlink(path))
        except OSError:
            continue
    return {name[len("socket:[") : -1] for name in found if name.startswith("socket:[")}


def listeners(pid: int) -> list[Listener]:
    owners: dict[str, str] = {}
    for each in set(descendants(pid)):
        command = Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        for inode in sockets(each):
            owners[inode] = f"{owners.get(inode, '')}\n{command}"
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in owners:
                address, _, port = fields[1].partition(":")
                found.append(Listener(int(port, 16), address, owners[fields[9]]))
    return found


def says(port: int, sent: bytes) -> bytes:
    """What is answered before the connection is closed, or within two seconds."""
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        try:
            connection.sendall(sent)
            return connection.recv(1000)
        except OSError:
            return b""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One that has moved rows to a table, started by a user whose files others may read."""
    folder = tmp_path_factory.mktemp("private")
    before = os.umask(0o022)
    try:
        with serving(folder, {"FRAZIL__LOG__SEAL__INTERVAL_SECONDS": "0.2"}, pipeline=True) as running:
            httpx.put(f"{running.url}/topics/orders").raise_for_status()
            lines = "".join(json.dumps({"payload": str(number)}) + "\n" for number in range(ROWS))
            headers = {"content-type": "application/x-ndjson"}
            httpx.post(f"{running.url}/topics/orders", content=lines, headers=headers).raise_for_status()
            httpx.put(f"{running.url}/topics/orders/subscriptions/billing").raise_for_status()
            deadline = time.monotonic() + SOON
            while not _moved(running):
                assert time.monotonic() < deadline, httpx.get(f"{running.url}/health").text
                time.sleep(0.2)
            yield running
    finally:
        os.umask(before)


def _moved(running: Served) -> bool:
    topics = httpx.get(f"{running.url}/status", timeout=30).json()["topics"]
    return any(topic["topic"] == "orders" and topic["committed_offset"] == ROWS for topic in topics)


def test_what_it_makes_is_its_users_alone(served: Served) -> None:
    folder = Path(f"/proc/{served.process.pid}/cwd").resolve() / "data"
    kinds = {path.suffix for path in folder.rglob("*")}
    assert {".wal", ".parquet", ".db", ".txlog", ".avro"} <= kinds, kinds
    wide = {
        str(path.relative_to(folder)): oct(mode)
        for path in (folder, *folder.rglob("*"))
        if (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077
    }
    assert wide == {}


def test_it_listens_for_this_machine_only_and_asks_for_a_secret(served: Served) -> None:
    operations = int(served.url.rpartition(":")[2])
    found = [each for each in listeners(served.process.pid) if each.port != operations]
    assert {each.address for each in found} <= set(LOOPBACK), found
    python = [each for each in found if "java" not in each.commands]
    spark = [each for each in found if "java" in each.commands]
    assert python, "the callback port, and that of the workers' daemon"
    assert spark, "the gateway, and Spark's own"
    for each in found:
        for command in COMMANDS:
            answer = says(each.port, command)
            assert not answer.startswith((b"!y", b"y")), (each, answer)
    # They work all the same.
    assert "unhealthy" not in httpx.get(f"{served.url}/health").text
