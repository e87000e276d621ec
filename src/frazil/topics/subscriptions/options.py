"""How a subscription behaves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from frazil.config.sections.section import MIB
from frazil.config.sections.subscriptions import Poison, SubscriptionsConfig


class Kind(StrEnum):
    EXCLUSIVE = "exclusive"
    """One consumer."""
    SHARED = "shared"
    """Messages go to whoever has room, in turn."""
    FAILOVER = "failover"
    """One consumer is active, the next in line takes over when it leaves."""
    KEY_SHARED = "key_shared"
    """Messages of one key go to one consumer, in order."""


@dataclass(frozen=True)
class Options:
    kind: Kind = Kind.EXCLUSIVE
    window: int = 1000
    """Most unacknowledged messages that one consumer has."""
    prefetch_size: int = 1000
    """Most messages of a partition that are read ahead."""
    max_held_bytes: int = 16 * MIB
    """Nothing more is read of a partition while so much of it is in memory, read ahead or unacknowledged."""
    max_gaps: int = 10_000
    """Most ranges acknowledged beyond the first message that is not; at this limit delivery of new ones pauses."""
    ack_timeout_seconds: float | None = 30.0
    """Messages of a consumer that acknowledges nothing for so long are delivered again."""
    base_delay_seconds: float = 1.0
    max_delay_seconds: float = 60.0
    max_redeliveries: int = 5
    poison: Poison = "block"
    """What becomes of a message that failed more often: it goes on to be delivered at the longest delay, is
    acknowledged as it is, or goes to the dead-letter topic."""

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
        """Whether one consumer at a time has a partition, in order."""
        return self.kind in (Kind.EXCLUSIVE, Kind.FAILOVER)

    def delay(self, failures: int) -> float:
        """Before the next delivery of a message that failed so often."""
        doubled = self.base_delay_seconds * 2.0 ** min(max(failures, 1) - 1, 62)
        return min(self.max_delay_seconds, doubled)
