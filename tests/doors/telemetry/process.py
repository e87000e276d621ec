"""Runs the telemetry doors in a process of their own, which can be killed and restarted."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.doors.process import IngestProcess
from tests.servers.child import free_ports

OPEN = {f"FRAZIL__{door}__ENABLED": "true" for door in ("OTLP", "LOKI", "PROMETHEUS")}
"""Environment variables that enable the doors, which tests disable otherwise."""


class Ports(NamedTuple):
    http: int
    grpc: int
    loki: int
    prometheus: int

    @classmethod
    def free(cls) -> Ports:
        return cls(*free_ports(len(cls._fields)))

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "otlp": {"http": {"port": self.http}, "grpc": {"port": self.grpc}},
            "loki": {"port": self.loki},
            "prometheus": {"port": self.prometheus},
        }


class DoorProcess(IngestProcess):
    """Runs `frazil ingest` with only these doors, always on the same ports."""

    def __init__(self, folder: Path, variables: Mapping[str, str] = OPEN, **settings: Any) -> None:
        self.ports = Ports.free()
        super().__init__(folder, {**self.ports.settings, **settings}, variables)

    def await_open(self, seconds: float = 60.0) -> None:
        """Waits until all doors can be reached."""
        until = time.monotonic() + seconds
        for port in self.ports:
            while True:
                assert self.child.alive, self.child.log()
                assert time.monotonic() < until, self.child.log()
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.05)
