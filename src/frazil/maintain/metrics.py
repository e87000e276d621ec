"""The metrics of maintenance."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from frazil.maintain.report import OperationReport

_BUCKETS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)


class MaintenanceMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        table = ("op", "table")
        self.runs = Counter(
            "frazil_maintenance_runs", "Operations on tables.", (*table, "outcome"), registry=registry
        )
        self.seconds = Histogram(
            "frazil_maintenance_seconds", "Time of an operation.", ("op",), buckets=_BUCKETS, registry=registry
        )
        self.files = Counter("frazil_maintenance_files_removed", "Files deleted.", table, registry=registry)
        self.bytes = Counter("frazil_maintenance_bytes_removed", "Bytes deleted.", table, registry=registry)

    def count(self, report: OperationReport) -> None:
        labels = (report.operation, report.table)
        self.runs.labels(*labels, report.outcome).inc()
        self.seconds.labels(report.operation).observe(report.seconds)
        if report.outcome == "done":
            self.files.labels(*labels).inc(report.work.removed.files or 0)
            self.bytes.labels(*labels).inc(report.work.removed.bytes or 0)
