"""Reports to Prometheus the lag of subscriptions and the memory of readers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from frazil.log.log import Log
from frazil.topics.storage import TopicStorage
from frazil.topics.subscription_manager import SubscriptionManager

_SUBSCRIPTION = ("topic", "subscription")
_COUNTERS = (
    ("delivered", "Messages handed to consumers, each delivery counted.", "delivered"),
    ("redelivered", "Deliveries that were not the first.", "redelivered"),
    ("dead_letters", "Messages that failed too often, and went to the dead-letter topic.", "dead"),
    ("dropped", "Messages that failed too often, and count as acknowledged.", "dropped"),
    ("unwanted", "Messages of keys that no consumer wanted, which count as acknowledged.", "unwanted"),
)


class ReadersCollector(Collector):
    """Reports the memory of all readers of messages. Belongs to the event loop of the topics."""

    def __init__(self, storage: TopicStorage) -> None:
        self._storage = storage

    def collect(self) -> Iterator[Metric]:
        held = GaugeMetricFamily(
            "frazil_topics_readers_bytes",
            "Memory of readers: what was just read from files (`shared`), and what streams are sending and "
            "subscriptions have (`held`).",
            labels=("kind",),
        )
        held.add_metric(["shared"], self._storage.shared_bytes)
        held.add_metric(["held"], self._storage.memory.held)
        yield held


class SubscriptionsCollector(Collector):
    """Reports on the subscriptions that this process serves. Those to a topic's partitions are counted together.

    Belongs to the event loop of the subscriptions.
    """

    def __init__(self, log: Log, subscriptions: SubscriptionManager) -> None:
        self._log = log
        self._subscriptions = subscriptions

    def collect(self) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            "frazil_subscription_lag", "Messages that are not acknowledged.", labels=(*_SUBSCRIPTION, "partition")
        )
        waiting = GaugeMetricFamily(
            "frazil_subscription_unacknowledged", "Messages that consumers have.", labels=_SUBSCRIPTION
        )
        consumers = GaugeMetricFamily("frazil_subscription_consumers", "Consumers.", labels=_SUBSCRIPTION)
        sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        ends = self._ends()
        for topic, report in self._subscriptions.reports(ends):
            found = sums[topic, report.name]
            for partition, each in report.partitions.items():
                if partition in ends.get(topic, {}):
                    lag.add_metric([topic, report.name, str(partition)], each.lag)
                found["unacknowledged"] += each.unacknowledged
            found["consumers"] += len(report.consumers)
            for _, _, attribute in _COUNTERS:
                found[attribute] += getattr(report, attribute)
        for labels, found in sums.items():
            waiting.add_metric(labels, found["unacknowledged"])
            consumers.add_metric(labels, found["consumers"])
        yield from (lag, waiting, consumers)
        for name, help_text, attribute in _COUNTERS:
            counter = CounterMetricFamily(f"frazil_subscription_{name}", help_text, labels=_SUBSCRIPTION)
            for labels, found in sums.items():
                counter.add_metric(labels, found[attribute])
            yield counter

    def _ends(self) -> Mapping[str, Mapping[int, int]]:
        """Returns the ends of the partitions that this process writes."""
        ends: dict[str, dict[int, int]] = defaultdict(dict)
        for writer in self._log.writers:
            ends[writer.topic][writer.partition] = writer.next_offset
        return ends
