"""Tests damage to the files of one topic: that topic is stopped, everything else is served."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from frazil.config.model import Config
from frazil.config.sections.log import LogConfig, SealConfig
from frazil.lake.catalog.lake import Lake
from frazil.log.log import Log
from frazil.log.wal.recovery import wal_files
from frazil.topics.lifecycle import create
from frazil.topics.messages import MESSAGE, Message, to_batch
from frazil.topics.read.topic_handle import TopicHandle
from tests.cli.support import Served, environment, frazil, serving
from tests.log.support import crash, cut_zeros

STEADY = {"FRAZIL__LOG__SEAL__INTERVAL_SECONDS": "3600"}
"""Nothing is sealed by time, so that all records are in WALs."""


def produce(url: str, topic: str, first: int, count: int) -> httpx.Response:
    lines = "".join(json.dumps({"payload": f"{topic} {number}"}) + "\n" for number in range(first, first + count))
    headers = {"content-type": "application/x-ndjson"}
    return httpx.post(f"{url}/topics/{topic}", content=lines, headers=headers, timeout=30)


def ask(url: str, text: str) -> httpx.Response:
    return httpx.post(f"{url}/sql", content=text, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder with a name that a shell would split in two."""
    place = tmp_path / "it's here; really"
    place.mkdir()
    return place


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    with serving(folder, STEADY) as running:
        yield running


def fill(folder: Path) -> None:
    """Make two topics of messages whose records are in the WALs of a process that was killed."""
    log = Log(Config(data_dir=folder / "data", log=LogConfig(seal=SealConfig(interval_seconds=3600))))
    for topic in ("orders", "visits"):
        create(TopicHandle(topic, log, Lake(log.config)), 1)
        writer = log.writer(topic, MESSAGE, partition=0)
        for first in (0, 10, 20):
            messages = [Message(f"{topic} {number}".encode()) for number in range(first, first + 10)]
            writer.append(to_batch(messages, log.world.clock.now_ms()))
        crash(writer)
    log._sealer.stop()


def wal(folder: Path, topic: str) -> Path:
    return cut_zeros(wal_files(folder / "data" / "wal" / topic / "00000")[-1])


def flip_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def command_in(text: str) -> str:
    return text.rstrip().rpartition(" Run: ")[2].splitlines()[0]


def test_a_damaged_wal_stops_its_topic_alone_until_the_printed_command_repairs_it(folder: Path) -> None:
    fill(folder)
    damaged = wal(folder, "orders")
    flip_in_the_middle(damaged)
    with served(folder) as running:
        assert "orders/0 is stopped" in running.banner
        assert str(damaged.relative_to(folder)) in running.banner
        health = httpx.get(f"{running.url}/health").json()
        assert health["status"] == "degraded"
        assert httpx.get(f"{running.url}/readyz").status_code == 200
        result = health["components"]["log"]["details"]["orders/0"]
        assert command_in(result) == command_in(running.banner)

        assert produce(running.url, "visits", 30, 10).is_success
        assert ask(running.url, "SELECT count(*) AS n FROM visits").json() == [{"n": 40}]
        for answer in (
            produce(running.url, "orders", 30, 10),
            ask(running.url, "SELECT count(*) AS n FROM orders"),
            httpx.get(f"{running.url}/topics/orders", params={"offset": 0}),
            httpx.get(f"{running.url}/hot/orders"),
        ):
            assert answer.status_code == 503, answer.text
            assert "orders/0 is stopped" in answer.json()["error"]

        # Run it as a person would, in a shell of its own and in another folder.
        repaired = subprocess.run(
            command_in(result), shell=True, cwd="/", env=environment(), capture_output=True, text=True, check=False
        )
        assert repaired.returncode == 0, repaired.stderr
        assert "lost: 10 records, offsets 10 to 20" in repaired.stdout

        assert produce(running.url, "orders", 30, 10).is_success
        rows = ask(running.url, "SELECT payload FROM orders ORDER BY _offset").json()
        wanted = [number for number in range(40) if not 10 <= number < 20]
        assert [base64.b64decode(row["payload"]).decode() for row in rows] == [
            f"orders {number}" for number in wanted
        ]
        assert httpx.get(f"{running.url}/health").json()["components"]["log"]["status"] == "healthy"
        running.end(signal.SIGTERM)
    assert frazil(folder, "log", "verify").returncode == 0


def test_it_does_not_start_when_nothing_can_be_served(folder: Path) -> None:
    fill(folder)
    for topic in ("orders", "visits"):
        flip_in_the_middle(wal(folder, topic))
    result = frazil(folder, "serve", FRAZIL__SERVER__PORT="0", FRAZIL__PIPELINE__ENABLED="false")
    assert result.returncode == 5
    assert "orders/0 is stopped" in result.stderr
    repaired = subprocess.run(
        command_in(result.stderr), shell=True, cwd="/", env=environment(), capture_output=True, text=True, check=False
    )
    assert repaired.returncode == 0, repaired.stderr
    with served(folder) as running:
        assert "visits/0 is stopped" in running.banner
        assert produce(running.url, "orders", 30, 10).is_success
