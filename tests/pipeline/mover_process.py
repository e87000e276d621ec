"""A process that moves a topic without Spark, and can be killed.

Run it with `python -m tests.pipeline.mover_process`. It reads a pickled configuration and the topic from its standard
input.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys

from frazil.config.model import Config
from tests.pipeline.support import move_all, pipeline_context


def move_until(failpoint: str, config: Config, topic: str) -> None:
    """Moves in a process of its own, which is killed at a failpoint."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.mover_process"],
        input=pickle.dumps((config, topic)),
        env={**os.environ, "FRAZIL_FAILPOINT": failpoint},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, f"nothing passed {failpoint}: {ended.stderr.decode()}"


def main() -> None:
    config, topic = pickle.loads(sys.stdin.buffer.read())
    with pipeline_context(config) as context:
        move_all(context, topic)


if __name__ == "__main__":
    main()
