"""Counts what the Kafka door does, and reports on each partition when metrics are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from frazil.doors.kafka.feed import NOTHING, Feed
from frazil.ops.metrics import ErrorCounter


class KafkaMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"frazil_{name}", text, labels, registry=registry)

        self.errors = ErrorCounter(registry)
        self.messages = counter("messages", "Messages from Kafka that were appended.", "topic")
        self.bytes = counter("kafka_bytes", "Bytes of the messages that were appended, as Arrow holds them.", "topic")
        self.backpressure = counter("backpressure", "How often a partition was paused for want of room.", "topic")
        self.rebalances = counter("kafka_rebalances", "Changes of the assignment by their kind.", "kind")
        self.fenced = counter("kafka_fenced", "How often another process had written a partition first.", "topic")
        self.commit_failures = counter(
            "kafka_commit_failures", "Group offsets that could not be committed; positions are in the log."
        )
        for kind in ("assigned", "revoked", "lost"):
            self.rebalances.labels(kind)

    def assigned(self, topics: Iterable[str]) -> None:
        """Count an assignment of partitions of these topics, whose other counters begin at zero."""
        self.rebalances.labels("assigned").inc()
        for topic in topics:
            for each in (self.messages, self.bytes, self.backpressure, self.fenced):
                each.labels(topic)


class FeedCollector(Collector):
    """Reads the numbers of all partitions when metrics are scraped."""

    def __init__(self, feeds: Callable[[], Iterable[Feed]]) -> None:
        self._feeds = feeds

    def collect(self) -> Iterator[Metric]:
        feeds = list(self._feeds())
        for name, text, value in (
            ("consumer_lag", "Offsets of the partition that are not read yet.", lambda feed: feed.lag),
            ("next_offset", "Kafka's offset that is read next.", lambda feed: _known(feed.next)),
            ("stored_offset", "Kafka's offset up to which all is sealed.", lambda feed: _known(feed.stored)),
            ("paused", "1 while the partition is paused for want of room.", lambda feed: int(feed.paused)),
            ("stopped", "1 while the partition is not read.", lambda feed: int(feed.writer is None)),
        ):
            gauge = GaugeMetricFamily(f"frazil_kafka_{name}", text, labels=("topic", "partition"))
            for feed in feeds:
                if (number := value(feed)) is not None:
                    gauge.add_metric([feed.topic, str(feed.partition)], number)
            yield gauge
        assigned = GaugeMetricFamily("frazil_kafka_partitions", "Partitions that are assigned to this process.")
        assigned.add_metric([], len(feeds))
        yield assigned


def _known(offset: int) -> int | None:
    return None if offset == NOTHING else offset
