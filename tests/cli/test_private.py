"""Tests what other users of the machine get of a running Frazil with its pipeline: no file, and no port that obeys
them.
"""

from __future__ import annotations

import json
import os
import pickle
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.support import Served, serving
from tests.pipeline.spark.open_ports import (
    CALLBACK,
    LOOPBACK,
    is_gateway,
    is_of_spark,
    is_of_workers,
    listeners,
    says,
    unix_listeners,
)

# The tests share one process, and so one JVM.
pytestmark = pytest.mark.xdist_group("private")

ROWS = 20
SOON = 240.0


class FolderMakingPickle:
    """Creates a folder in the process that unpickles it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._folder),)


def accumulator_message(folder: Path) -> bytes:
    """Returns a wrong token, longer than any, and what the port for accumulators would unpickle after a right one."""
    update = pickle.dumps(FolderMakingPickle(folder))
    return b"x" * 255 + b"\n" + struct.pack(">ii", 1, len(update)) + update


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Runs a Frazil that has moved rows to a table, started by a user whose files others may read."""
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


def test_it_listens_for_this_machine_only_and_asks_for_a_secret(served: Served, tmp_path: Path) -> None:
    operations = int(served.url.rpartition(":")[2])
    found = [each for each in listeners(served.process.pid) if each.port != operations]
    assert {each.address for each in found} <= set(LOOPBACK), found
    assert unix_listeners(served.process.pid) == []
    java = {each.port for each in found if "java" in each.commands}
    daemons = {each.port for each in found if "daemon" in each.commands}
    own = {each.port for each in found} - java - daemons
    gateways = set(filter(is_gateway, java))
    spark = set(filter(is_of_spark, java - gateways))
    assert len(gateways) == 1
    assert len(spark) == 2, "the driver and its block manager"
    assert daemons
    assert all(map(is_of_workers, daemons)), daemons
    assert len(own) == 2, "callbacks, and accumulators"
    for port in own:
        assert says(port, CALLBACK) == b""
        assert b"y" not in says(port, accumulator_message(tmp_path / "opened"))
    assert not (tmp_path / "opened").exists()
    # Spark leaves a socket open on which nobody accepts what was sent to it above.
    left = java - gateways - spark
    assert all(each.waiting for each in listeners(served.process.pid) if each.port in left), left
    # They work all the same.
    assert "unhealthy" not in httpx.get(f"{served.url}/health").text
