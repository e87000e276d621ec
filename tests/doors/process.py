"""`frazil ingest` in a process of its own, which can be killed and started again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from frazil.config.model import Config
from tests.cli.support import FRAZIL, environment
from tests.servers.child import Child


class IngestProcess:
    """With these settings each time; `variables` open the doors, which tests have closed otherwise."""

    role = "ingest"

    def __init__(self, folder: Path, settings: Mapping[str, Any], variables: Mapping[str, str]) -> None:
        folder.mkdir(exist_ok=True)
        given = {"data_dir": str(folder / "data"), "server": {"port": 0}, **settings}
        (folder / "frazil.yaml").write_text(yaml.safe_dump(given))
        self.config = Config.model_validate(given)
        self._folder = folder
        self._variables = variables
        self._starts = 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        log = self._folder / f"said-{self._starts}.log"
        self.child = Child([str(FRAZIL), self.role], log, self._folder, environment(**self._variables))

    def kill(self) -> None:
        self.child.kill()

    def stop(self) -> None:
        self.child.stop()

    def memory(self, name: str) -> int:
        """Of the process, in bytes: `VmRSS` now, `VmHWM` at most."""
        found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{self.child.pid}/status").read_text(), re.M)
        assert found, self.child.log()
        return int(found[1]) * 1024
