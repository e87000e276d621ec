"""Runs Danube's own client, in processes with an environment of their own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers.child import Child

PYTHON = Path(sys.prefix) / "danube" / "bin" / "python"
HERE = Path(__file__).parent


class Event(NamedTuple):
    what: str
    """It is `received` or `acknowledged`."""
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
        # The other environment must not inherit variables of this one.
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        # A client that has lost its server asks for it without a pause, and the server must still be able to start.
        super().__init__(["nice", "-n", "10", str(PYTHON), str(HERE / program), *arguments], log, env=env)
        self._path = log
        self._read = 0
        self._told: list[Any] = []

    def told(self) -> list[Any]:
        """Returns the lines of JSON that the process has printed so far. It skips the lines of others."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        complete = lines[: lines.rfind(b"\n") + 1]
        self._read += len(complete)
        self._told += [json.loads(line) for line in complete.splitlines() if line.startswith((b'"', b'["'))]
        return self._told

    def check(self) -> None:
        assert self.alive, self.log()[-3000:]


class Producer(_Client):
    """Sends `count` messages, one after the other for each key."""

    def __init__(self, url: str, topic: str, log: Path, *, name: str, partitions: int, count: int, keys: int) -> None:
        super().__init__("produce.py", log, url, topic, name, str(partitions), str(count), str(keys))

    def acknowledged(self) -> list[str]:
        return self.told()


class Consumer(_Client):
    def __init__(self, url: str, topic: str, log: Path, *, subscription: str, kind: str, name: str) -> None:
        super().__init__("consume.py", log, url, topic, subscription, kind, name)

    def events(self) -> list[Event]:
        return [Event(*each) for each in self.told()[1:]]

    @property
    def subscribed(self) -> bool:
        return bool(self.told())


class Tour(_Client):
    """Uses every feature once."""

    def __init__(self, url: str, log: Path) -> None:
        super().__init__("tour.py", log, url)


def until(ready: Callable[[], bool], seconds: float, *clients: _Client) -> None:
    """Waits for something that must happen, while these clients live."""
    deadline = time.monotonic() + seconds
    while not ready():
        for client in clients:
            client.check()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
