"""Runs the pipeline's process, for tests that need a real one with Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from frazil.config.model import Config
from frazil.footprint import OWN_PROCESS
from frazil.ops.health import Health, HealthReport
from frazil.pipeline.process_messages import PipelineReport, settings_line

START_SECONDS = 120.0

_STARTING = Health("degraded", "starting")


class PipelineProcess:
    """The process of a pipeline. Entering the context starts it, and leaving stops it in any case."""

    def __init__(self, config: Config, env: Mapping[str, str] | None = None) -> None:
        self._config = config
        # The command that starts such processes sets the same.
        self._env = {**os.environ, OWN_PROCESS: "1", **(env or {})}
        self._reports: list[PipelineReport] = []
        self._said: list[str] = []

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "frazil.app.pipeline_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._env,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(settings_line(self._config))
        self.process.stdin.flush()
        self._listeners = [threading.Thread(target=each, daemon=True) for each in (self._listen, self._hear)]
        for listener in self._listeners:
            listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for listener in self._listeners:
            listener.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._reports.append(PipelineReport.from_line(line.decode()))

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line.decode())

    @property
    def health(self) -> Health:
        """Returns the health of its worst component."""
        report = HealthReport(self._reports[-1].health if self._reports else {"pipeline": _STARTING}, 0.0)
        return Health(report.status, report.reason)

    def component(self, name: str) -> Health:
        return self._reports[-1].health[name] if self._reports else _STARTING

    @property
    def metrics(self) -> str:
        return next((report.metrics for report in reversed(self._reports) if report.metrics), "")

    @property
    def said(self) -> str:
        """Returns all that it has logged."""
        return "".join(self._said)

    def wait_for(self, done: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
        """Waits until a condition is true. Fails with the log of the process if it is not true in time."""
        deadline = time.monotonic() + seconds
        while not done():
            if self.process.poll() is not None or time.monotonic() > deadline:
                state = f"ended with {self.process.returncode}" if self.process.returncode is not None else "runs"
                raise AssertionError(f"not {what}; the pipeline {state}; {self.health}; it said:\n{self.said}")
            time.sleep(0.1)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
