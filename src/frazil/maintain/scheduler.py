"""Runs maintenance on its schedule: each operation at its own interval, one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.config.sections.maintenance import (
    CompactionConfig,
    ExpiryConfig,
    MaintenanceConfig,
    ManifestsConfig,
    OrphansConfig,
    ScheduledConfig,
)
from frazil.errors import FrazilError
from frazil.log.topics.schemas import list_topics
from frazil.maintain.all_operations import all_operations
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.maintained_tables import MaintainedTable, find_maintained_tables
from frazil.maintain.metrics import MaintenanceMetrics
from frazil.maintain.operations import Operation, log_report, run_operation
from frazil.maintain.report import OperationReport, OperationResult
from frazil.ops.health import HEALTHY, Health
from frazil.pipeline.move.context import PipelineContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

FIRST_SECONDS = 60.0
"""The first run is at most this long after the start. Otherwise a process that restarts often would never do any."""
DEGRADED_AFTER = 3
"""After this many failures in a row, of one operation on one table, health is degraded."""
_JITTER = 0.1
_EVERYWHERE = "all tables"

_Section = CompactionConfig | ManifestsConfig | ExpiryConfig | OrphansConfig | ScheduledConfig


@dataclass
class _Due:
    operation: Operation
    interval: float
    at: float


class Scheduler:
    """The scheduler of maintenance. It runs on a thread of its own, and any thread may call `health`."""

    def __init__(
        self,
        context: MaintenanceContext,
        metrics: MaintenanceMetrics,
        operations: Sequence[Operation] | None = None,
    ) -> None:
        self._context = context
        self._metrics = metrics
        maintenance = context.config.maintenance
        self._operations = all_operations(maintenance) if operations is None else operations
        self._problems: dict[tuple[str, str], tuple[int, str]] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, context: PipelineContext, spark: SparkSession, metrics: MaintenanceMetrics) -> Scheduler:
        return cls(MaintenanceContext.of(context, spark), metrics)

    def run(self, stopping: threading.Event) -> None:
        """Runs operations until `stopping` is set. An operation that has begun on a table is finished first."""
        intervals = scheduled(self._context.config.maintenance)
        now = self._now()
        plan = [
            _Due(each, intervals[each.name], now + self._jittered(min(FIRST_SECONDS, intervals[each.name])))
            for each in self._operations
            if each.name in intervals
        ]
        while plan and not stopping.is_set():
            due = min(plan, key=lambda each: each.at)
            if stopping.wait(max(0.0, due.at - self._now())):
                return
            self.run_once(due.operation, stopping)
            due.at = self._now() + self._jittered(due.interval)

    def run_once(self, operation: Operation, stopping: threading.Event) -> list[OperationReport]:
        """Runs one operation on every table that it is for."""
        reports: list[OperationReport] = []
        try:
            context = self._context
            found = find_maintained_tables(context.lake, context.config, topics=list_topics(context.store))
            targets = [each for each in found if operation.applies(each)]
        except FrazilError as error:
            self._failed(operation.name, _EVERYWHERE, str(error))
            return reports
        self._well(operation.name, _EVERYWHERE)
        for target in targets:
            if stopping.is_set():
                break
            try:
                report = run_operation(self._context, operation, target)
            except Exception as error:  # noqa: BLE001 - one table's trouble, whatever it is, must not end all maintenance
                if not stopping.is_set():
                    self._unexpected(operation.name, target, f"{type(error).__name__}: {error}")
                continue
            reports.append(report)
            if report.outcome == "failed" and stopping.is_set():
                # It failed because Spark is being stopped.
                break
            self._metrics.count(report)
            if report.outcome == "failed":
                self._failed(operation.name, target.name, report.work.note)
            else:
                self._well(operation.name, target.name)
        return reports

    def health(self) -> Health:
        with self._lock:
            lasting = [
                f"{operation} of {table}: {reason}"
                for (operation, table), (times, reason) in sorted(self._problems.items())
                if times >= DEGRADED_AFTER
            ]
        return Health("degraded", "; ".join(lasting)) if lasting else HEALTHY

    def _unexpected(self, operation: str, target: MaintainedTable, reason: str) -> None:
        self._failed(operation, target.name, reason)
        self._metrics.runs.labels(operation, target.name, "failed").inc()
        log_report(
            self._context,
            OperationReport(operation, target.name, target.topic, OperationResult("failed", note=reason), 0.0),
        )

    def _failed(self, operation: str, table: str, reason: str) -> None:
        with self._lock:
            times, said = self._problems.get((operation, table), (0, ""))
            self._problems[operation, table] = (times + 1, reason)
        if reason != said:
            logger.error("maintenance failed", extra={"operation": operation, "table": table, "reason": reason})

    def _well(self, operation: str, table: str) -> None:
        with self._lock:
            self._problems.pop((operation, table), None)

    def _now(self) -> float:
        return self._context.world.clock.monotonic()

    def _jittered(self, seconds: float) -> float:
        return seconds * (1 + _JITTER * self._context.world.rng.random())


def scheduled(config: MaintenanceConfig) -> dict[str, float]:
    """Returns the interval in seconds of each scheduled operation. Migration is started only by people."""
    if not config.enabled:
        return {}
    sections: dict[str, _Section] = {
        "compact": config.compaction,
        "manifests": config.manifests,
        "expire": config.expiry,
        "orphans": config.orphans,
        "retention": config.retention,
        "trim": config.trim,
    }
    return {name: section.interval_seconds for name, section in sections.items() if section.enabled}
