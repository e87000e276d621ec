"""Runs work with Spark as a part of the process: a child process that is started again when it dies."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from frazil.app.parts.log import LogPart
from frazil.backoff import Backoff
from frazil.config.model import Config
from frazil.ops.health import Components, Health, HealthReport
from frazil.pipeline.process_messages import FRESHNESS, PipelineReport, freshness, settings_line

logger = logging.getLogger(__name__)

_RESTART_BACKOFF = Backoff(base_seconds=1.0, longest_seconds=60.0)
_STEADY_SECONDS = 60.0
"""After a child that lived this long, the count of failures starts again at zero."""
_SILENT_SECONDS = 120.0
"""The part is unhealthy when the child has not reported for this long.

It reports every few seconds, but on a busy machine its start may take a minute.
"""
_LINE_BYTES = 64 * 1024 * 1024


class SparkPart:
    """Keeps one child process running. `module` is what it runs."""

    name: str
    module: str

    def __init__(self, config: Config, metrics: CollectorRegistry, log: LogPart | None = None) -> None:
        """`log` is the log part of this process, if it has one.

        Records that are not sealed there are in no table yet, which freshness must take into account.
        """
        self._config = config
        self._report = PipelineReport({self.name: Health("degraded", "starting")}, "")
        self._child: asyncio.subprocess.Process | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._last_report_at = time.monotonic()
        metrics.register(ChildMetrics(self, log))

    async def start(self) -> None:
        """Return at once. Spark takes its time to start, and the log takes records meanwhile."""
        self._supervision = asyncio.create_task(self._keep_running())

    async def stop(self) -> None:
        if self._supervision is not None:
            self._supervision.cancel()
            await asyncio.gather(self._supervision, return_exceptions=True)
        if self._child is not None and self._child.returncode is None:
            self._child.terminate()
            await self._child.wait()

    def health(self) -> Components:
        if (silent := time.monotonic() - self._last_report_at) > _SILENT_SECONDS:
            silence = Health("unhealthy", f"its process has not said anything for {silent:.0f} s")
            return {**self._report.health, self.name: silence}
        return self._report.health

    @property
    def child_pid(self) -> int | None:
        return self._child.pid if self._child else None

    @property
    def metrics_text(self) -> str:
        return self._report.metrics or ""

    async def _keep_running(self) -> None:
        failures = 0
        logged = ""
        while True:
            self._last_report_at = started = time.monotonic()
            try:
                code = await self._run_child()
            except OSError as error:
                self._report = PipelineReport({self.name: Health("unhealthy", f"cannot be started: {error}")}, "")
                code = 1
            failures = 0 if time.monotonic() - started > _STEADY_SECONDS else failures + 1
            pause = _RESTART_BACKOFF.delay(failures, random.Random())
            self._report = PipelineReport(self._health_after_exit(code), "")
            reason = HealthReport(self._report.health, 0.0).reason
            if reason != logged:
                logger.error(
                    "the %s ended; it is started again", self.name, extra={"reason": reason, "exit_code": code}
                )
                logged = reason
            await asyncio.sleep(pause)

    def _health_after_exit(self, code: int) -> Components:
        """Returns the components that the child blamed, if it ended by itself."""
        if code < 0:
            return {self.name: Health("unhealthy", f"its process was ended by signal {-code}")}
        blamed = {name: each for name, each in self._report.health.items() if each.status == "unhealthy"}
        return blamed or {self.name: Health("unhealthy", f"its process ended with code {code}")}

    async def _run_child(self) -> int:
        """Run the child until it ends, and return its exit code."""
        self._child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            self.module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
            # Ctrl-C in the terminal must reach this process only, which then stops its child in order.
            start_new_session=True,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(settings_line(self._config))
        async for line in self._child.stdout:
            try:
                report = PipelineReport.from_line(line.decode())
            except (ValueError, KeyError, TypeError):
                # This is the last line of a child that was killed, or a library printed something.
                logger.info("the %s said", self.name, extra={"line": line.decode(errors="replace").strip()})
                continue
            self._last_report_at = time.monotonic()
            self._report = report if report.metrics is not None else report.with_metrics(self._report.metrics)
        return await self._child.wait()


class PipelinePart(SparkPart):
    """Moves the log into tables, and maintains them."""

    name = "pipeline"
    module = "frazil.app.pipeline_process"


class MaintenancePart(SparkPart):
    """Maintains tables and log without moving anything."""

    name = "maintenance"
    module = "frazil.app.maintenance_process"


class ChildMetrics(Collector):
    """Returns the metrics of the child as of its last report."""

    def __init__(self, part: SparkPart, log: LogPart | None) -> None:
        self._part = part
        self._log = log

    def collect(self) -> Iterator[Metric]:
        for family in text_string_to_metric_families(self._part.metrics_text):
            yield self._with_tail(family) if family.name == FRESHNESS else family

    def _with_tail(self, family: Metric) -> Metric:
        """Adds the age of unsealed records, which the child cannot see, to the freshness that it reports."""
        ages = {sample.labels["topic"]: sample.value for sample in family.samples}
        unsealed = self._log.oldest_unsealed() if self._log else {}
        return freshness({topic: max(age, unsealed.get(topic, 0.0)) for topic, age in ages.items()})
