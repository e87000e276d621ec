"""What people want to know of a subscription."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.topics.subscriptions.delivery import Delivery
from frazil.topics.subscriptions.places import Place


@dataclass(frozen=True)
class LaneReport:
    mark: int
    """Everything below is acknowledged."""
    lag: int
    """Messages that are not acknowledged."""
    gaps: int
    unacknowledged: int
    """Delivered and not acknowledged."""
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
    partitions: Mapping[int, LaneReport]
    consumers: tuple[ConsumerReport, ...]
    delivered: int
    redelivered: int
    dead: int
    dropped: int
    unwanted: int

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions.values())


def gathered(
    place: Place, delivery: Delivery, ends: Mapping[int, int], problems: Mapping[int, Exception]
) -> SubscriptionReport:
    """`ends`: the offset after the newest message of each partition, where it is known."""
    partitions = {
        partition: LaneReport(
            mark=lane.progress.mark,
            lag=lane.progress.missing_count(max(ends.get(partition, 0), lane.position)),
            gaps=lane.progress.gap_count,
            unacknowledged=lane.unsettled,
            prefetched=lane.fresh,
            held_bytes=lane.held_bytes,
            problem=str(problems[partition]) if partition in problems else None,
        )
        for partition, lane in delivery.lanes.items()
    }
    counters = delivery.counters
    return SubscriptionReport(
        place.subscription,
        str(delivery.options.kind),
        partitions,
        tuple(ConsumerReport(seat.name, seat.flying) for seat in delivery.consumers),
        counters.delivered,
        counters.redelivered,
        counters.dead,
        counters.dropped,
        counters.unwanted,
    )
