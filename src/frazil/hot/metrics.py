"""Reports to Prometheus what the buffer holds and how often it was of use."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from frazil.clock import Clock
from frazil.hot.buffer import Buffer
from frazil.hot.partition_contents import PartitionContents

_COUNTERS = (
    ("hits", "Lookups that found their record in memory.", "hits"),
    ("misses", "Lookups that did not.", "misses"),
    ("evicted_records", "Sealed records that made room for others.", "evicted"),
    ("expired_records", "Sealed records that were older than the time to live.", "expired"),
    ("dropped_records", "Records that turned out not to be part of the log.", "dropped"),
)


class BufferCollector(Collector):
    """Reads the buffer's own counts when metrics are collected."""

    def __init__(self, buffer: Buffer, clock: Clock) -> None:
        self._buffer = buffer
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        buffer, now = self._buffer, self._clock.now_ms()
        contents = {topic: [buffered.contents for buffered in each.values()] for topic, each in buffer.topics.items()}
        for name, help_text, attribute in _COUNTERS:
            counter = CounterMetricFamily(f"frazil_buffer_{name}", help_text, labels=("topic",))
            for topic in contents:
                counter.add_metric([topic], getattr(buffer.stats(topic), attribute))
            yield counter
        for name, help_text, value in (
            ("size_bytes", "Memory of the records.", lambda each: sum(h.nbytes for h in each)),
            ("index_bytes", "Memory of the index.", lambda each: sum(h.index_bytes for h in each)),
            ("record_count", "Records in memory.", lambda each: sum(h.rows for h in each)),
            ("unsealed_bytes", "Memory of unsealed records.", lambda each: sum(h.unsealed_bytes for h in each)),
            ("oldest_unsealed_seconds", "Age of the oldest unsealed record.", lambda each: _age(each, now)),
        ):
            gauge = GaugeMetricFamily(f"frazil_buffer_{name}", help_text, labels=("topic",))
            for topic, each in contents.items():
                gauge.add_metric([topic], value(each))
            yield gauge
        yield GaugeMetricFamily("frazil_buffer_max_bytes", "Bound of all topics together.", value=buffer.max_bytes)


def _age(contents: list[PartitionContents], now_ms: int) -> float:
    """Returns 0 when everything is sealed."""
    oldest = [ms for each in contents if (ms := each.oldest_unsealed_ms) is not None]
    return max(0.0, (now_ms - min(oldest)) / 1000) if oldest else 0.0
