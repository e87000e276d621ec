"""Measures how far tables are behind the sealed log, in records and in seconds, for the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.process_messages import freshness
from frazil.scan.log_extents import LogExtent, LogExtents

INTERVAL_SECONDS = 10.0


class _Waiting(NamedTuple):
    """A segment that is not in the table yet: its end, and the time of its oldest record."""

    end: int
    since_ms: int


class Lag(Collector):
    """Collects the lag metrics. One thread measures, and any thread may collect."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context
        self._logs: dict[str, LogExtents] = {}
        self._sealed: dict[str, dict[int, int]] = {}
        self._waiting: dict[str, dict[int, list[_Waiting]]] = {}
        self._due = float("-inf")

    def measure(self) -> None:
        """Measures the logs of all topics that are moved. Does nothing if the last time was too recent."""
        now = self._context.world.clock.monotonic()
        if now < self._due:
            return
        self._due = now + INTERVAL_SECONDS
        for topic in {topic for topic, _ in list(self._context.committed)}:
            extents = self._log(topic).current(tail=False)
            self._sealed[topic] = {partition: extent.sealed_end for partition, extent in extents.items()}
            committed = self._committed(topic)
            if committed is None:
                continue
            self._waiting[topic] = {
                partition: self._wait(topic, partition, committed.get(partition, 0), extent)
                for partition, extent in extents.items()
            }

    def _wait(self, topic: str, partition: int, committed: int, extent: LogExtent) -> list[_Waiting]:
        """Returns the oldest and the newest segment that are not in the table.

        All of them would cost more requests.
        """
        missing = list(extent.segments_between(committed, extent.sealed_end))
        ends = {each.first: each for each in (*missing[:1], *missing[-1:])}
        return [_Waiting(each.end, self._log(topic).oldest_ms(partition, each)) for each in ends.values()]

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics, with the offsets that are committed now."""
        yield self._lag()
        yield freshness(self._ages())

    def _lag(self) -> Metric:
        text = "Sealed records that are not in the table yet."
        family = GaugeMetricFamily("frazil_pipeline_lag_records", text, labels=("topic", "table", "partition"))
        for (topic, table), committed in list(self._context.committed.items()):
            for partition, end in self._sealed.get(topic, {}).items():
                family.add_metric([topic, table, str(partition)], max(0, end - committed.get(partition, 0)))
        return family

    def _ages(self) -> dict[str, float]:
        now = self._context.world.clock.now_ms()
        ages: dict[str, float] = {}
        for topic, partitions in list(self._waiting.items()):
            committed = self._committed(topic) or {}
            oldest = min(
                (
                    each.since_ms
                    for partition, waiting in partitions.items()
                    for each in waiting
                    if each.end > committed.get(partition, 0)
                ),
                default=now,
            )
            ages[topic] = max(0.0, (now - oldest) / 1000)
        return ages

    def _committed(self, topic: str) -> dict[int, int] | None:
        """Returns the committed offsets of the base table, or None if it was not opened yet."""
        return self._context.committed.get((topic, self._context.config.base_table(topic)))

    def _log(self, topic: str) -> LogExtents:
        if topic not in self._logs:
            self._logs[topic] = LogExtents(self._context.store, topic, self._context.config.data_dir)
        return self._logs[topic]
