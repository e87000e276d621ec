"""A process that replays the dead letters of a topic, and can be killed.

Run it with `python -m tests.pipeline.deadletters.replay_process`. It reads a pickled configuration and the topic from
its standard input.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys

from frazil.config.model import Config
from frazil.lake.catalog.lake import Lake
from frazil.pipeline.deadletters.replay import Replay, ReplayResult
from frazil.store import open_store


def replay(config: Config, topic: str) -> ReplayResult:
    return Replay(config, Lake(config), open_store(config.store, config.data_dir), topic).run()


def replay_until(failpoint: str, config: Config, topic: str) -> None:
    """Replays in a process of its own, which is killed at a failpoint."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.deadletters.replay_process"],
        input=pickle.dumps((config, topic)),
        env={**os.environ, "FRAZIL_FAILPOINT": failpoint},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, f"nothing passed {failpoint}: {ended.stderr.decode()}"


if __name__ == "__main__":
    replay(*pickle.loads(sys.stdin.buffer.read()))
