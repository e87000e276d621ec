"""The doors for telemetry in a process of their own, which can be killed and started again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from frazil.config.model import Config
from tests.cli.support import FRAZIL, environment
from tests.servers.child import Child, free_ports

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


class DoorProcess:
    """`frazil ingest` with only these doors, always on the same ports."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.ports = Ports.free()
        given = {"data_dir": str(folder / "data"), "server": {"port": 0}, **self.ports.settings, **settings}
        (folder / "frazil.yaml").write_text(yaml.safe_dump(given))
        self.config = Config.model_validate(given)
        self._folder = folder
        self._starts = 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        log = self._folder / f"said-{self._starts}.log"
        self.child = Child([str(FRAZIL), "ingest"], log, self._folder, environment(**OPEN))

    def kill(self) -> None:
        self.child.kill()

    def stop(self) -> None:
        self.child.stop()

    def memory(self, name: str) -> int:
        """Of the process, in bytes: `VmRSS` now, `VmHWM` at most."""
        found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{self.child.pid}/status").read_text(), re.M)
        assert found, self.child.log()
        return int(found[1]) * 1024
