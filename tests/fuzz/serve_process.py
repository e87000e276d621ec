"""Runs `frazil serve` with all its doors open, in a process of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from tests.doors.telemetry.process import OPEN, DoorProcess
from tests.faults.pipeline_fleet import MOVED_SECONDS, QUICK
from tests.servers.child import free_ports
from tests.servers.spark import SHORT_LIVED

_SHOWN = ("problems", "log_end", "unsealed_records", "behind")


class AllDoors(DoorProcess):
    """Opens the doors for telemetry and for topics, over HTTP and Danube's protocol.

    A pipeline runs only if it is asked for, because Spark takes long to start.
    """

    role = "serve"

    def __init__(self, folder: Path, *, pipeline: bool = False) -> None:
        self.http, self.danube = free_ports(2)
        self.pipeline = pipeline
        more = {
            "server": {"port": self.http},
            "danube": {"port": self.danube},
            "pipeline": {**QUICK, "enabled": pipeline, "spark": dict(SHORT_LIVED)},
        }
        super().__init__(folder, {**OPEN, "FRAZIL__DANUBE__ENABLED": "true"}, **more)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"

    def status(self) -> dict[str, Any]:
        """Returns the status of all components and of every topic."""
        found: dict[str, Any] = httpx.get(f"{self.url}/status", timeout=60).json()
        return found

    def await_healthy(self) -> None:
        """Wait until everything is healthy and, if a pipeline runs, all records are in tables."""
        until = time.monotonic() + MOVED_SECONDS
        while (problems := self._problems()) and time.monotonic() < until:
            assert self.child.alive, self.child.log()[-4000:]
            time.sleep(0.2)
        assert not problems, problems

    def _problems(self) -> dict[str, Any]:
        """Returns what is not as it should be, by name."""
        status = self.status()
        found: dict[str, Any] = {} if status["status"] == "healthy" else {"components": status["components"]}
        for topic in status["topics"]:
            waits = topic["log_end"] and (topic["unsealed_records"] or topic["behind"] != 0)
            if topic["problems"] or (self.pipeline and waits):
                found[topic["topic"]] = {name: topic[name] for name in _SHOWN}
        return found
