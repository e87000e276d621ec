"""Danube's own client, in processes of its own environment."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.servers.child import Child

PYTHON = Path(sys.prefix) / "danube" / "bin" / "python"
HERE = Path(__file__).parent


class Event(NamedTuple):
    what: str
    """`received` or `acknowledged`."""
    at: float
    topic: str
    offset: int
    text: str

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.offset

    @property
    def key(self) -> str:
        return self.text.rpartition(" ")[0]

    @property
    def number(self) -> int:
        return int(self.text.rpartition(" ")[2])


class _Client(Child):
    def __init__(self, program: str, log: Path, *arguments: str) -> None:
        # Nothing of this environment is for the other one.
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        super().__init__([str(PYTHON), str(HERE / program), *arguments], log, env=env)
        self._path = log

    def lines(self) -> list[str]:
        """All that are complete."""
        return [line for line in self._path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def check(self) -> None:
        assert self.alive, self.log()[-3000:]


class Producer(_Client):
    """Sends `count` messages, for each of so many keys one after the other."""

    def __init__(self, url: str, topic: str, log: Path, *, name: str, partitions: int, count: int, keys: int) -> None:
        super().__init__("produce.py", log, url, topic, name, str(partitions), str(count), str(keys))

    def acknowledged(self) -> list[str]:
        return [json.loads(line) for line in self.lines() if line.startswith('"')]


class Consumer(_Client):
    def __init__(self, url: str, topic: str, log: Path, *, subscription: str, kind: str, name: str) -> None:
        super().__init__("consume.py", log, url, topic, subscription, kind, name)

    def events(self) -> list[Event]:
        return [Event(*json.loads(line)) for line in self.lines() if line.startswith(('["received"', '["ack'))]

    @property
    def subscribed(self) -> bool:
        return any(line.startswith('["subscribed"') for line in self.lines())


def until(ready: Callable[[], bool], seconds: float, *clients: _Client) -> None:
    """Wait for something that must happen, while these clients live."""
    deadline = time.monotonic() + seconds
    while not ready():
        for client in clients:
            client.check()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
