"""The doors for telemetry in a process of their own, which can be killed and started again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tests.doors.process import IngestProcess
from tests.servers.child import free_ports

OPEN = {f"FRAZIL__{door}__ENABLED": "true" for door in ("OTLP", "LOKI", "PROMETHEUS")}
"""Variables that open the doors, which tests have closed otherwise."""


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
    """`frazil ingest` with only these doors, always on the same ports."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.ports = Ports.free()
        super().__init__(folder, {**self.ports.settings, **settings}, OPEN)
