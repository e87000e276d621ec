"""Defines entries, which are messages that were read and not acknowledged, and the state of consumers.

An entry is a range of successive messages with the same state. It is split where their states begin to differ.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

import pyarrow as pa

from frazil.topics.messages import MESSAGE
from frazil.topics.subscriptions.key_routing import Accepts


class EntryState(Enum):
    WAITING = "waiting"
    """The entry waits for delivery, at the earliest when it is due."""
    IN_FLIGHT = "in_flight"
    """The entry was delivered, and times out when it is due."""
    DEAD = "dead"
    """The entry is being moved to the dead-letter topic."""
    SETTLED = "settled"
    """Nothing more is to be done."""


class HeldBatch:
    """Holds rows in memory that several entries share."""

    __slots__ = ("batch", "epoch", "first", "live", "nbytes")

    def __init__(self, first: int, batch: pa.RecordBatch, epoch: str, live: int) -> None:
        self.first = first
        self.batch = batch
        self.epoch = epoch
        self.live = live
        """So many rows are not settled."""
        self.nbytes = int(batch.nbytes)


NO_BATCH = HeldBatch(0, pa.RecordBatch.from_pylist([], schema=MESSAGE), "", 0)
"""Settled entries refer to this, so that they keep no rows in memory."""


DeliveryPosition = tuple[int, int]
"""These are the number of a delivery and an offset in it. A consumer gets messages in this order."""


class ConsumerState:
    """Has the state of a consumer that has joined."""

    __slots__ = (
        "_newest",
        "_newest_before",
        "_turned_at",
        "accepts",
        "answered_at",
        "credit",
        "id",
        "in_flight",
        "most",
        "name",
        "passed",
        "queue",
        "window",
    )

    def __init__(self, number: int, name: str, most: int, accepts: Accepts | None = None) -> None:
        self.id = number
        self.name = name
        self.most = most
        """The consumer may have this many unacknowledged messages."""
        self.window = most
        """This is the current limit, which is smaller while the consumer does not answer."""
        self.answered_at = 0.0
        self._newest: DeliveryPosition = (0, 0)
        """This is the latest position that the consumer has answered."""
        self._newest_before: DeliveryPosition = (0, 0)
        """This is the latest position that it had answered when `passed` changed last."""
        self._turned_at = 0.0
        self.passed: DeliveryPosition = (0, 0)
        """Messages before this position that are still unanswered were forgotten: the consumer answered this one long
        ago."""
        self.accepts = accepts
        """The consumer wants the keys for which this is true, or all keys if it is None."""
        self.credit = 0
        """The consumer asked for this many more messages."""
        self.in_flight = 0
        """The consumer has this many unsettled messages."""
        self.queue: dict[MessageGroup, None] = {}
        """These groups may have something for the consumer. The one that waits longest comes first."""

    @property
    def room(self) -> int:
        return min(self.credit, self.window - self.in_flight)

    def answer(self, position: DeliveryPosition, now: float, patience: float | None) -> bool:
        """Notes that the consumer acknowledged or refused something.

        Returns True when `passed` has changed, which happens at most once in `patience` seconds.
        """
        self.answered_at = now
        self.window = self.most
        turned = patience is not None and now - self._turned_at >= patience
        if turned:
            self.passed, self._newest_before, self._turned_at = self._newest_before, self._newest, now
        self._newest = max(self._newest, position)
        return turned


class DeliveryEntry:
    """Is a range [start, end) of offsets in one partition."""

    __slots__ = (
        "consumer",
        "delivered_at",
        "deliveries",
        "delivery_number",
        "due",
        "end",
        "failures",
        "group",
        "held",
        "partition",
        "reason",
        "stamp",
        "start",
        "state",
    )

    def __init__(self, partition: int, start: int, end: int, held: HeldBatch, group: MessageGroup | None) -> None:
        self.partition = partition
        self.start = start
        self.end = end
        self.held = held
        self.group = group
        self.state = EntryState.WAITING
        self.consumer: ConsumerState | None = None
        """This consumer has the entry while it is in flight."""
        self.delivery_number = 0
        self.delivered_at = 0.0
        """These are the number and the time of its last delivery."""
        self.due = 0.0
        """An entry in flight never times out if this is 0."""
        self.deliveries = 0
        self.failures = 0
        self.reason = ""
        self.stamp = 0
        """It changes with the state, which cancels earlier timers."""

    @property
    def rows(self) -> int:
        return self.end - self.start

    def batch(self) -> pa.RecordBatch:
        return self.held.batch.slice(self.start - self.held.first, self.end - self.start)

    def cut(self, at: int) -> DeliveryEntry:
        """Splits off the part below `at`."""
        part = DeliveryEntry(self.partition, self.start, at, self.held, self.group)
        part.state, part.consumer, part.due = self.state, self.consumer, self.due
        part.delivery_number, part.delivered_at = self.delivery_number, self.delivered_at
        part.deliveries, part.failures, part.reason = self.deliveries, self.failures, self.reason
        self.start = at
        return part

    def __repr__(self) -> str:
        return f"DeliveryEntry({self.partition}: {self.start}-{self.end}, {self.state.value})"


class MessageGroup:
    """Has messages that keep their order and are with one consumer at a time: those of a partition, or of a key.

    Within each partition, entries in flight come before those that wait.
    """

    __slots__ = ("chosen", "chosen_in", "in_flight", "key", "owner", "waiting")

    def __init__(self, key: str) -> None:
        self.key = key
        self.waiting: deque[DeliveryEntry] = deque()
        self.in_flight = 0
        self.owner: ConsumerState | None = None
        """This consumer has the entries in flight."""
        self.chosen: ConsumerState | None = None
        """This consumer gets the next entries. It was chosen at the change of consumers number `chosen_in`."""
        self.chosen_in = -1

    def head(self) -> DeliveryEntry | None:
        """Returns the next entry to deliver."""
        while self.waiting and self.waiting[0].state is not EntryState.WAITING:
            self.waiting.popleft()
        return self.waiting[0] if self.waiting else None
