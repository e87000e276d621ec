"""Tests kills of `frazil serve` and its pipeline.

neither outlives the other, and each record is in one table, once.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.faults.loader import TOPICS, Loader, check_everything, moved
from tests.faults.pipeline_fleet import QUICK, pipeline_config
from tests.faults.serve_process import Serve
from tests.lake.support import local_config
from tests.servers.proxy import Proxy
from tests.servers.shared import NessieServer

KILLS = 30
LIFE_SECONDS = 25.0


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
