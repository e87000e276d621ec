"""Tests kills of `frazil serve` and its pipeline.

neither outlives the other, and each record is in one table, once.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
import yaml

from frazil.config.model import Config
from tests.cli.support import FRAZIL, environment
from tests.faults.loader import TOPICS, Loader, check_everything, moved
from tests.faults.pipeline_fleet import MOVED_SECONDS, QUICK, children, command, pipeline_config
from tests.lake.support import local_config
from tests.servers.proxy import Proxy
from tests.servers.shared import NessieServer

KILLS = 30
LIFE_SECONDS = 25.0


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


def gone(pid: int) -> bool:
    """Returns whether a process has ended. A zombie has ended, too."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_neither_outlives_the_other(tmp_path: Path, nessie: NessieServer, nessie_proxy: Proxy) -> None:
    """The catalog is down, so the pipeline does not start Spark yet."""
    nessie_proxy.down()
    config = local_config(tmp_path, lake={"properties": nessie.properties(nessie_proxy.endpoint)}, pipeline=QUICK)
    with Serve(tmp_path / "serve", config) as serve:
        serve.wait_for(lambda: serve.health()["status"] == "unhealthy", "told of the catalog")
        reason = serve.health()["components"]["catalog"]["reason"]
        assert nessie_proxy.endpoint in reason
        first = serve.pipeline
        assert first is not None
        os.kill(first, signal.SIGKILL)
        serve.wait_for(lambda: serve.pipeline not in (None, first), "started again")
        assert "the pipeline ended; it is started again" in serve.said
        second = serve.pipeline
        assert second is not None
        serve.process.kill()
        serve.process.wait()
        deadline = time.monotonic() + 60
        while not gone(second):
            assert time.monotonic() < deadline, "the pipeline outlives its parent"
            time.sleep(0.05)
        # Python prints this if a child for queries was just being started.
        assert "Traceback" not in serve.said or "Ran out of input" in serve.said


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_killed_many_times(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    config = pipeline_config(tmp_path)
    kills = {"serve": 0, "pipeline": 0}
    with Loader(config, seed, pause=0.5) as loader, Serve(tmp_path / "serve", config) as serve:
        loader.start()
        while sum(kills.values()) < KILLS:
            time.sleep(chance.uniform(0, LIFE_SECONDS))
            if chance.random() < 0.2:
                loader.widen(chance.choice(TOPICS))
            if chance.random() < 0.5:
                serve.process.kill()
                serve.process.wait()
                # The pipeline that it leaves behind finishes its batch while the next one runs.
                serve.start()
                kills["serve"] += 1
            elif (pid := serve.pipeline) is not None:
                os.kill(pid, signal.SIGKILL)
                kills["pipeline"] += 1
        loader.stop()
        serve.wait_for(lambda: moved(config, loader), "moved everything")
        serve.wait_for(lambda: serve.health()["status"] == "healthy", "healthy again")
        serve.process.send_signal(signal.SIGTERM)
        assert serve.process.wait(90) == 130
        check_everything(config, loader)
        print(f"seed {seed}: {kills}, {loader.rows} rows")  # noqa: T201
