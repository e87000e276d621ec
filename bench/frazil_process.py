"""Runs Frazil as people run it: the command, in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from types import TracebackType
from typing import Self

from frazil.config.model import Config
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState
from frazil.lake.tables.tables import base_identifier

LONGEST_SECONDS = 300.0
_SHOWN = 4000


class Frazil:
    """Runs `frazil COMMAND` from entering to leaving. The port should be 0, so that a free one is taken."""

    def __init__(self, command: str, config: Config, folder: Path) -> None:
        self._out = folder / f"{command}.out"
        self._err = folder / f"{command}.err"
        self._settings = folder / f"{command}.yaml"
        self._settings.write_text(json.dumps(config.model_dump(mode="json", exclude_unset=True)))
        self._command = [str(Path(sys.executable).parent / "frazil"), "--config", str(self._settings), command]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.terminate()
        assert self._process is not None
        self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def terminate(self) -> None:
        """Let it stop in good order, without waiting for it."""
        assert self._process is not None
        self._process.terminate()

    def wait(self, done: Callable[[], bool], every_seconds: float = 0.5) -> None:
        assert self._process is not None
        try:
            wait(self._process, done, every_seconds)
        except (RuntimeError, TimeoutError) as error:
            raise type(error)(f"{error}:\n{self._err.read_text()[-_SHOWN:]}") from None

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Yields a connection as soon as the process has said where it listens."""
        self.wait(lambda: self._address is not None, 0.05)
        assert self._address is not None
        with closing(Connection(self._address)) as connection:
            yield connection

    @property
    def _address(self) -> str | None:
        found = re.search(r"http://([\w.]+:\d+)", self._out.read_text())
        return found[1] if found else None


class Connection:
    """Sends requests over one connection that stays open.

    If the server has closed it while idle, it is opened again.
    """

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address, timeout=LONGEST_SECONDS)

    def get(self, path: str) -> tuple[int, bytes]:
        """Returns status and body."""
        try:
            return self._ask("GET", path)
        except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self._connection.close()
            return self._ask("GET", path)

    def sql(self, text: str) -> bytes:
        """Returns the rows as JSON."""
        status, body = self._ask("POST", "/sql", text)
        if status != 200:
            raise RuntimeError(f"refused: {body!r}")
        return body

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        self._connection.request(method, path, body)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def metric(self, name: str) -> float:
        """Returns the sum of a metric over all labels."""
        _, text = self.get("/metrics")
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text.decode(), re.MULTILINE))

    def close(self) -> None:
        self._connection.close()


def wait(process: subprocess.Popen[bytes], done: Callable[[], bool], every_seconds: float = 0.5) -> None:
    """Wait until `done` returns true, which the process is to bring about."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not done():
        if process.poll() is not None and not done():
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{process.args!r} did not get there in {LONGEST_SECONDS:g} seconds")
        time.sleep(every_seconds)


def committed(config: Config, topic: str) -> int:
    """Returns how many records of a topic with one partition are in its table."""
    lake = Lake(config)
    try:
        return TableState.of(lake.load(base_identifier(config, topic))).offsets.get(0, 0)
    except Exception:  # noqa: BLE001 - there is no table, or no catalog, yet
        return 0
    finally:
        lake.close()
