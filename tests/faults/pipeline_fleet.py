"""Runs several pipelines with Spark on one lake, and kills, pauses and restarts them."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from frazil.config.model import Config
from frazil.failpoints import VARIABLE
from tests.lake.support import local_config
from tests.pipeline.pipeline_process import PipelineProcess
from tests.servers.spark import SHORT_LIVED

QUICK: dict[str, Any] = {
    "flush_interval_seconds": 0.2,
    "poll_interval_ms": 100,
    "retry": {"base_delay_ms": 50, "max_delay_seconds": 1.0},
    "breaker": {"reset_timeout_seconds": 1.0},
}
BUSY: dict[str, Any] = {
    "compaction": {"interval_seconds": 3, "settle_seconds": 1, "min_input_files": 2},
    "manifests": {"interval_seconds": 5, "min_input_manifests": 3},
    "expiry": {"interval_seconds": 3, "keep_last": 2, "max_snapshots": 4, "max_age_hours": 0},
    "trim": {"interval_seconds": 3},
}
QUICK_TRIM: dict[str, Any] = {
    "log": {"trim_grace_seconds": 5},
    "query": {"timeout_seconds": 4},
    "sql": {"timeout_seconds": 4},
}
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
MOVED_SECONDS = 240.0


def pipeline_config(folder: Path, master: str = "local[2]", **settings: Any) -> Config:
    """Returns settings of a pipeline that moves records at once and runs maintenance all the time."""
    spark = {**SHORT_LIVED, "spark.master": master}
    return local_config(
        folder, **{"pipeline": {**QUICK, "spark": spark}, "maintenance": BUSY, **QUICK_TRIM, **settings}
    )


class Fleet:
    """Pipelines that work on the same lake. Each may be killed in several ways. `kills` counts the kills."""

    def __init__(self, config: Config, chance: random.Random) -> None:
        self.kills: dict[str, int] = {}
        self._config = config
        self._chance = chance
        self._entered = ExitStack()
        self.running: list[PipelineProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipeline in self.running:
            self.resume(pipeline)
        self._entered.close()

    def start(self, failpoint: str | None = None) -> PipelineProcess:
        env = {VARIABLE: failpoint} if failpoint else {}
        pipeline = self._entered.enter_context(PipelineProcess(self._config, env))
        self.running.append(pipeline)
        return pipeline

    def kill(self, pipeline: PipelineProcess, what: str) -> bool:
        """Kills the driver, its JVM, or one of the processes that run tasks.

        Returns whether there was such a process.
        """
        pid = pipeline.process.pid
        match what:
            case "driver":
                found = [pid]
            case "jvm":
                found = [each for each in children(pid) if "org.apache.spark" in command(each)]
            case "executor":
                found = [each for each in descendants(pid) if "CoarseGrainedExecutorBackend" in command(each)]
            case _:
                found = spark_workers(pipeline)
        if not found:
            return False
        with suppress(ProcessLookupError):
            os.kill(self._chance.choice(found), signal.SIGKILL)
        self.kills[what] = self.kills.get(what, 0) + 1
        return True

    def bury(self, pipeline: PipelineProcess) -> None:
        """Waits for the end of a pipeline that cannot go on."""
        deadline = time.monotonic() + MOVED_SECONDS
        while pipeline.process.poll() is None:
            assert time.monotonic() < deadline, f"the pipeline goes on; {pipeline.health}; it said:\n{pipeline.said}"
            time.sleep(0.05)
        self.running.remove(pipeline)

    def pause(self, pipeline: PipelineProcess) -> None:
        """Stops it with all its processes, like a machine that is frozen or out of memory."""
        self._signal(pipeline, signal.SIGSTOP)

    def resume(self, pipeline: PipelineProcess) -> None:
        self._signal(pipeline, signal.SIGCONT)

    def _signal(self, pipeline: PipelineProcess, number: signal.Signals) -> None:
        if pipeline.process.poll() is None:
            for pid in (pipeline.process.pid, *descendants(pipeline.process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


def spark_workers(pipeline: PipelineProcess) -> list[int]:
    """Returns the Python processes beside the JVM: those of tasks, and those that plan the streams."""
    return [each for each in descendants(pipeline.process.pid) if re.search(r"^\S*python.* pyspark\.", command(each))]


def children(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                # The name of a program, in parentheses, may contain any character.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.append(int(folder.name))
    return sorted(found)


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
