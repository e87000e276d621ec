"""Tests SIGKILL at random moments: every acknowledged record is found once, at the offset that was acknowledged."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import pytest

from frazil.config.model import Config
from frazil.log.log import Log
from tests.faults.appender import ACK
from tests.log.support import TOPIC
from tests.servers.shared import S3Server

IDS_PER_LIFE = 100_000_000
SETTINGS: dict[str, Any] = {
    "log": {"seal": {"interval_seconds": 0.03}, "linger_ms": 20, "max_file_size_mb": 1, "sync_interval_ms": 5}
}


def settings_for(folder: Path, sync: str, ack: str, store: dict[str, Any]) -> dict[str, Any]:
    return {
        "data_dir": str(folder),
        "log": {**SETTINGS["log"], "sync": sync},
        "topics": {TOPIC: {"ack": ack}},
        "store": store,
    }


class Life:
    """One run of the appending process, and what it acknowledged before it was killed."""

    def __init__(self, config: dict[str, Any], number: int) -> None:
        self.acks: list[tuple[int, int, int]] = []
        self._first = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.appender", json.dumps(config), str(number * IDS_PER_LIFE)],
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()

    def _read(self, stdout: IO[bytes]) -> None:
        with stdout:
            while len(data := stdout.read(ACK.size)) == ACK.size:
                self.acks.append(ACK.unpack(data))
                self._first.set()

    def kill_after(self, seconds: float) -> None:
        """Kills it this long after its first acknowledgement."""
        try:
            assert self._first.wait(60), "the process acknowledged nothing"
            threading.Event().wait(seconds)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()


def run_lives(config: dict[str, Any], lives: int, seed: int) -> None:
    rng = random.Random(seed)
    expected: dict[int, int] = {}
    for number in range(lives):
        life = Life(config, number)
        life.kill_after(rng.uniform(0, 0.3))
        for first, offset, count in life.acks:
            for i in range(count):
                assert expected.setdefault(offset + i, first + i) == first + i, "an offset was given twice"
    check(config, expected)


def check(config: dict[str, Any], expected: dict[int, int]) -> None:
    with Log(Config.model_validate(config)) as log:
        log.adopt_orphans()
        assert log.partitions(TOPIC) == [0]
        found: list[int] = []
        for run in log.reader(TOPIC, 0).read(0):
            assert run.offset == len(found)
            found += run.batch.column("id").to_pylist()
    assert expected
    assert {o: found[o] for o in expected} == expected, "an acknowledged record is not where it was said to be"
    assert len(set(found)) == len(found), "a record is there twice"
    unacknowledged = len(found) - len(expected)
    assert unacknowledged < len(found) / 2 + 1000, "far more is stored than was acknowledged"


@pytest.mark.parametrize(("sync", "ack"), [("always", "local"), ("periodic", "local"), ("periodic", "object")])
def test_a_few_kills(tmp_path: Path, seed: int, sync: str, ack: str) -> None:
    run_lives(settings_for(tmp_path, sync, ack, {}), lives=4, seed=seed)


@pytest.mark.parametrize("ack", ["local", "object"])
def test_a_few_kills_on_s3(tmp_path: Path, seed: int, s3_server: S3Server, s3_prefix: str, ack: str) -> None:
    store = json.loads(s3_server.config(s3_prefix).model_dump_json())
    store["secret_access_key"] = s3_server.config(s3_prefix).secret_access_key.get_secret_value()  # type: ignore[union-attr]
    run_lives(settings_for(tmp_path, "periodic", ack, store), lives=3, seed=seed)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("sync", "ack"), [("always", "local"), ("periodic", "local"), ("none", "local"), ("periodic", "object")]
)
def test_sixty_kills(tmp_path: Path, seed: int, sync: str, ack: str) -> None:
    run_lives(settings_for(tmp_path, sync, ack, {}), lives=60, seed=seed)
