"""Reports the state of a subscription: its lag, its partitions and its consumers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.topics.subscriptions.delivery import Delivery
from frazil.topics.subscriptions.subscription_name import SubscriptionName


@dataclass(frozen=True)
class PartitionReport:
    mark: int
    """All messages below this offset are acknowledged."""
    lag: int
    """So many messages are not acknowledged."""
    gaps: int
    unacknowledged: int
    """So many messages were delivered and are not acknowledged."""
    prefetched: int
    held_bytes: int
    problem: str | None


@dataclass(frozen=True)
class ConsumerReport:
    name: str
    unacknowledged: int


@dataclass(frozen=True)
class SubscriptionReport:
    name: str
    kind: str
    partitions: Mapping[int, PartitionReport]
    consumers: tuple[ConsumerReport, ...]
    delivered: int
    redelivered: int
    dead: int
    dropped: int
    unwanted: int

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions.values())


def build_report(
    full_name: SubscriptionName, delivery: Delivery, ends: Mapping[int, int], problems: Mapping[int, Exception]
) -> SubscriptionReport:
    """`ends` has the offset after the newest message of each partition, where it is known."""
    partitions = {
        partition: PartitionReport(
            mark=backlog.progress.mark,
            lag=backlog.progress.missing_count(max(ends.get(partition, 0), backlog.position)),
            gaps=backlog.progress.gap_count,
            unacknowledged=backlog.unsettled,
            prefetched=backlog.undelivered,
            held_bytes=backlog.held_bytes,
            problem=str(problems[partition]) if partition in problems else None,
        )
        for partition, backlog in delivery.backlogs.items()
    }
    counters = delivery.counters
    return SubscriptionReport(
        full_name.subscription,
        str(delivery.options.kind),
        partitions,
        tuple(ConsumerReport(consumer.name, consumer.in_flight) for consumer in delivery.consumers),
        counters.delivered,
        counters.redelivered,
        counters.dead,
        counters.dropped,
        counters.unwanted,
    )
