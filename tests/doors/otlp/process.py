"""The OTLP door in a process of its own, which can be killed and started again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from frazil.config.model import Config
from tests.cli.support import FRAZIL, environment
from tests.servers.child import Child, free_ports


def only_otlp(http: int, grpc: int) -> dict[str, Any]:
    """Settings of the doors for telemetry."""
    closed = {"enabled": False}
    return {"otlp": {"http": {"port": http}, "grpc": {"port": grpc}}, "loki": closed, "prometheus": closed}


class DoorProcess:
    """`frazil ingest` with only this door, always on the same ports."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.http_port, self.grpc_port = free_ports(2)
        given = {
            "data_dir": str(folder / "data"),
            "server": {"port": 0},
            **only_otlp(self.http_port, self.grpc_port),
            **settings,
        }
        (folder / "frazil.yaml").write_text(yaml.safe_dump(given))
        self.config = Config.model_validate(given)
        self._folder = folder
        self._starts = 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        log = self._folder / f"said-{self._starts}.log"
        env = environment(FRAZIL__OTLP__ENABLED="true")
        self.child = Child([str(FRAZIL), "ingest"], log, self._folder, env)

    def kill(self) -> None:
        self.child.kill()

    def stop(self) -> None:
        self.child.stop()

    def memory(self, name: str) -> int:
        """Of the process, in bytes: `VmRSS` now, `VmHWM` at most."""
        found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{self.child.pid}/status").read_text(), re.M)
        assert found, self.child.log()
        return int(found[1]) * 1024
