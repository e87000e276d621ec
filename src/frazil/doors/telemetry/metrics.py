"""The Prometheus metrics of the telemetry doors themselves."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from frazil.log.writer.group import Ack
from frazil.ops.metrics import ErrorCounter

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
MOST_TENANTS = 1000
"""The most tenants that are counted by name."""
OTHERS = "<others>"
"""The label for all other tenants. No tenant can have this name."""


class TelemetryMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"frazil_telemetry_{name}", text, labels, registry=registry)

        self._tenants: set[str] = set()
        self.errors = ErrorCounter(registry)
        self.requests = counter("requests", "Requests by how they were answered.", "topic", "protocol", "status")
        self.records = counter("records", "Records stored.", "topic", "tenant")
        self.bytes = counter("bytes", "Bytes of the records stored, as Arrow holds them.", "topic", "tenant")
        self.duplicates = counter("duplicates", "Requests that were stored already.", "topic")
        self.rejected = counter("rejected", "Records that were refused for good.", "topic", "tenant")
        self.invalid_ids = counter("invalid_ids", "Ids of traces and spans that are none; they are null.", "topic")
        self.seconds = Histogram(
            "frazil_telemetry_seconds",
            "Time until the answer.",
            ("topic", "protocol"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "frazil_telemetry_in_flight_bytes", "Bytes of requests that are worked on.", registry=registry
        )

    def stored(self, topic: str, acks: Iterable[tuple[str, Ack]], row_bytes: int) -> None:
        """Counts what tenants have stored. `row_bytes` is the average size of a row."""
        duplicates = 0
        rows: dict[str, int] = {}
        for tenant, ack in acks:
            if ack.duplicate:
                duplicates += 1
            else:
                rows[tenant] = rows.get(tenant, 0) + ack.rows
        if duplicates:
            self.duplicates.labels(topic).inc(duplicates)
        for tenant, count in rows.items():
            self.records.labels(topic, self._named(tenant)).inc(count)
            self.bytes.labels(topic, self._named(tenant)).inc(count * row_bytes)

    def refused(self, topic: str, tenant: str, records: int) -> None:
        self.rejected.labels(topic, self._named(tenant)).inc(records)

    def _named(self, tenant: str) -> str:
        """Returns the label for a tenant. Clients can make up names of tenants, and each would be kept for ever."""
        if tenant not in self._tenants:
            if len(self._tenants) >= MOST_TENANTS:
                return OTHERS
            self._tenants.add(tenant)
        return tenant
