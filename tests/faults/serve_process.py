"""What tests beside this share."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from frazil.config.model import Config
from tests.cli.support import FRAZIL, environment
from tests.faults.pipeline_fleet import MOVED_SECONDS, children, command


class Serve:
    """Runs `frazil serve` with a log file, so that nobody has to read its output."""

    def __init__(self, folder: Path, config: Config, **variables: str) -> None:
        folder.mkdir(exist_ok=True)
        settings = config.model_dump(mode="json", exclude_unset=True)
        settings["lake"] = {**settings.get("lake", {}), "properties": dict(config.lake.properties)}
        settings["pipeline"]["spark"] = dict(config.pipeline.spark)
        settings["server"] = {"port": 0}
        (folder / "frazil.yaml").write_text(yaml.safe_dump(settings))
        self._folder = folder
        self._variables = variables
        self._log = folder / "serve.log"
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._begun = self._log.stat().st_size
            self.process = subprocess.Popen(
                [FRAZIL, "serve"], cwd=self._folder, env=environment(**self._variables), stdout=log, stderr=log
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def pipeline(self) -> int | None:
        """Returns the process of its pipeline, if there is one."""
        found = [each for each in children(self.process.pid) if "frazil.app.pipeline_process" in command(each)]
        return found[0] if found else None

    @property
    def url(self) -> str | None:
        """Returns the address of its operations port, or None before it listens."""
        with self._log.open("rb") as log:
            log.seek(self._begun)
            found = re.search(r"operations +(http://\S+)", log.read().decode(errors="replace"))
        return found[1] if found else None

    def health(self) -> dict[str, Any]:
        """Returns its health, which is empty before it listens."""
        if (url := self.url) is None:
            return {"status": "", "components": {}}
        health: dict[str, Any] = httpx.get(f"{url}/health", timeout=30).json()
        return health

    def wait_for(self, done: Callable[[], bool], what: str, seconds: float = MOVED_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            assert self.process.poll() is None, f"serve ended:\n{self.said}"
            assert time.monotonic() < deadline, f"not {what}; {self.health()}; it said:\n{self.said}"
            time.sleep(0.1)
