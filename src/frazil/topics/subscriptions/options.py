"""Defines the types and options of a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from frazil.config.sections.section import MIB
from frazil.config.sections.subscriptions import Poison, SubscriptionsConfig


class Kind(StrEnum):
    EXCLUSIVE = "exclusive"
    """The subscription has one consumer."""
    SHARED = "shared"
    """Messages go to consumers with room, in turn."""
    FAILOVER = "failover"
    """One consumer is active, and the next one takes over when it leaves."""
    KEY_SHARED = "key_shared"
    """Messages of one key go to one consumer, in order."""


@dataclass(frozen=True)
class Options:
    kind: Kind = Kind.EXCLUSIVE
    window: int = 1000
    """One consumer has at most this many unacknowledged messages."""
    prefetch_size: int = 1000
    """At most this many messages of a partition are read ahead."""
    max_held_bytes: int = 16 * MIB
    """Reading of a partition pauses while this much of it is in memory, read ahead or unacknowledged."""
    max_gaps: int = 10_000
    """At most this many ranges are acknowledged out of order. At the limit, delivery of new messages pauses."""
    ack_timeout_seconds: float | None = 30.0
    """Messages of a consumer that acknowledges nothing for this long are delivered again."""
    base_delay_seconds: float = 1.0
    max_delay_seconds: float = 60.0
    max_redeliveries: int = 5
    poison: Poison = "block"
    """A message that failed more often is either delivered again at the longest delay, or counted as acknowledged, or
    moved to the dead-letter topic."""

    @classmethod
    def of(cls, settings: SubscriptionsConfig, kind: Kind) -> Options:
        return cls(
            kind=kind,
            ack_timeout_seconds=settings.ack_timeout_seconds,
            base_delay_seconds=settings.redelivery_delay_seconds,
            max_delay_seconds=settings.max_redelivery_delay_seconds,
            max_redeliveries=settings.max_redeliveries,
            poison=settings.after_redeliveries,
        )

    @property
    def ordered(self) -> bool:
        """Returns whether one consumer at a time has a partition, in order."""
        return self.kind in (Kind.EXCLUSIVE, Kind.FAILOVER)

    def delay(self, failures: int) -> float:
        """Returns the delay before the next delivery of a message that failed this often."""
        doubled = self.base_delay_seconds * 2.0 ** min(max(failures, 1) - 1, 62)
        return min(self.max_delay_seconds, doubled)
