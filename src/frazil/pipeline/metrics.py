"""The metrics of the pipeline."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from frazil.ops.metrics import ErrorCounter

_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class PipelineMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        table = ("topic", "table")
        self.errors = ErrorCounter(registry)
        self.flushes = Counter("frazil_flushes", "Batches moved into tables.", table, registry=registry)
        self.rows = Counter("frazil_rows_flushed", "Rows committed to tables.", table, registry=registry)
        self.bytes = Counter("frazil_pipeline_bytes", "Bytes of data files committed.", table, registry=registry)
        self.files = Counter("frazil_pipeline_files", "Data files committed.", table, registry=registry)
        self.commits = Counter("frazil_iceberg_commits", "Commits that succeeded.", table, registry=registry)
        self.conflicts = Counter(
            "frazil_pipeline_conflicts",
            "Batches that somebody else moved first, all or in part.",
            table,
            registry=registry,
        )
        self.dead_letters = Counter(
            "frazil_pipeline_dead_letters", "Rows that did not fit their table.", ("topic",), registry=registry
        )
        self.failures = Counter(
            "frazil_pipeline_failures",
            "Batches that failed and were begun again.",
            ("topic", "error"),
            registry=registry,
        )
        self.flush_seconds = Histogram(
            "frazil_flush_duration_seconds",
            "Time from reading a batch to its commit.",
            table,
            buckets=_BUCKETS,
            registry=registry,
        )
        self.last_commit = Gauge(
            "frazil_last_commit_timestamp_seconds",
            "When the table was last committed to, in seconds since 1970.",
            table,
            registry=registry,
        )
        self.committed = Gauge(
            "frazil_pipeline_committed_offset",
            "Next offset that a table needs.",
            (*table, "partition"),
            registry=registry,
        )

    def show(self, topic: str, table: str) -> None:
        """Creates the time series of a table with the value 0, so that the first event is an increase."""
        for counter in (self.flushes, self.rows, self.bytes, self.files, self.commits, self.conflicts):
            counter.labels(topic, table)
        self.flush_seconds.labels(topic, table)
        self.dead_letters.labels(topic)
