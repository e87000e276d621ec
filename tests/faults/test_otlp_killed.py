"""The OTLP door is killed under load: what it acknowledged is there, once, and what is sent again too."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
import yaml

from frazil.config.model import Config
from frazil.query.reading import read
from tests.cli.support import FRAZIL, environment
from tests.doors.telemetry.support import PROTOBUF, logs_request
from tests.servers.child import Child, free_ports

CLIENTS = 4
WAIT_SECONDS = 120.0


class Door:
    """`frazil ingest` with only this door, always on the same port."""

    def __init__(self, folder: Path) -> None:
        http, grpc = free_ports(2)
        folder.mkdir()
        self.settings = {
            "data_dir": str(folder / "data"),
            "server": {"port": 0},
            "otlp": {"http": {"port": http}, "grpc": {"port": grpc}},
            "log": {"seal": {"interval_seconds": 0.5}},
        }
        (folder / "frazil.yaml").write_text(yaml.safe_dump(self.settings))
        self.url = f"http://127.0.0.1:{http}"
        self._folder = folder
        self._starts = 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        log = self._folder / f"said-{self._starts}.log"
        env = environment(FRAZIL__OTLP__ENABLED="true")
        self._child = Child([str(FRAZIL), "ingest"], log, self._folder, env)

    def kill(self) -> None:
        self._child.kill()

    def stop(self) -> None:
        self._child.stop()


class Sender(threading.Thread):
    """Sends one request after the other; each again until it is acknowledged, as exporters do."""

    def __init__(self, name: str, url: str, stopping: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._url = url
        self._stopping = stopping
        self.acknowledged: list[str] = []
        self.repeated = 0
        self.refused: list[str] = []

    def run(self) -> None:
        with httpx.Client(timeout=30) as client:
            number = 0
            while not self._stopping.is_set():
                texts = [f"{self.name} {number} {each}" for each in range(5)]
                body = logs_request(*texts, time=1 + number).SerializeToString()
                while not self._sent(client, body):
                    self.repeated += 1
                    time.sleep(0.05)
                self.acknowledged += texts
                number += 1

    def _sent(self, client: httpx.Client, body: bytes) -> bool:
        try:
            answer = client.post(f"{self._url}/v1/logs", content=body, headers=PROTOBUF)
        except httpx.TransportError:
            return False
        if answer.status_code not in (200, 429, 503):
            self.refused.append(answer.text)
        return answer.status_code == 200


def deaths(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    door = Door(folder)
    stopping = threading.Event()
    senders = [Sender(f"sender-{number}", door.url, stopping) for number in range(CLIENTS)]
    try:
        for sender in senders:
            sender.start()
        for _ in range(kills):
            _await_progress(senders)
            time.sleep(chance.random())
            door.kill()
            door.start()
        _await_progress(senders)
    finally:
        stopping.set()
        for sender in senders:
            sender.join(WAIT_SECONDS)
        door.stop()
    assert not any(sender.is_alive() for sender in senders)
    assert not [text for sender in senders for text in sender.refused]
    assert sum(sender.repeated for sender in senders) > 0
    found = read("logs", config=Config.model_validate(door.settings)).table()["body"].to_pylist()
    expected = [text for sender in senders for text in sender.acknowledged]
    assert Counter(found) == Counter(expected)


def _await_progress(senders: list[Sender]) -> None:
    before = [len(sender.acknowledged) for sender in senders]
    until = time.monotonic() + WAIT_SECONDS
    while not all(len(sender.acknowledged) > count for sender, count in zip(senders, before, strict=True)):
        assert time.monotonic() < until, "nothing is acknowledged any more"
        time.sleep(0.02)


def test_a_few_deaths(tmp_path: Path, seed: int) -> None:
    deaths(tmp_path / "door", 3, seed)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_deaths(tmp_path: Path, seed: int) -> None:
    deaths(tmp_path / "door", 25, seed)
