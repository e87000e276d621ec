"""What was read and is not acknowledged, and the consumers it goes to.

An entry is a range of neighbours that have the same fate so far; it is cut where fates part.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

import pyarrow as pa

from frazil.topics.messages import MESSAGE
from frazil.topics.subscriptions.key_routing import Accepts


class EntryState(Enum):
    WAITING = "waiting"
    """To be delivered, not before it is due."""
    IN_FLIGHT = "in_flight"
    """Delivered; given up on when it is due."""
    DEAD = "dead"
    """On its way to the dead-letter topic."""
    SETTLED = "settled"
    """Nothing more is to be done."""


class HeldBatch:
    """Rows in memory, shared by entries."""

    __slots__ = ("batch", "epoch", "first", "live", "nbytes")

    def __init__(self, first: int, batch: pa.RecordBatch, epoch: str, live: int) -> None:
        self.first = first
        self.batch = batch
        self.epoch = epoch
        self.live = live
        """Rows that are not settled."""
        self.nbytes = int(batch.nbytes)


NO_BATCH = HeldBatch(0, pa.RecordBatch.from_pylist([], schema=MESSAGE), "", 0)
"""Of entries that are settled: whoever still knows them keeps no rows in memory."""


DeliveryPosition = tuple[int, int]
"""The number of a delivery, and an offset in it: in this order a consumer gets messages."""


class ConsumerState:
    """A consumer that has joined."""

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
        """Unacknowledged messages that it may have."""
        self.window = most
        """The same, but less while it does not answer."""
        self.answered_at = 0.0
        self._newest: DeliveryPosition = (0, 0)
        """Of all that it answered, what it got last."""
        self._newest_before: DeliveryPosition = (0, 0)
        """The same, as of when the clock was turned."""
        self._turned_at = 0.0
        self.passed: DeliveryPosition = (0, 0)
        """What it got before this, and did not answer for a while after it had answered this, it has forgotten."""
        self.accepts = accepts
        """Which keys it wants; None if all."""
        self.credit = 0
        """How many more messages it asked for."""
        self.in_flight = 0
        """Messages that it has and did not settle."""
        self.queue: dict[MessageGroup, None] = {}
        """Strands that may have something for it, the longest waiting first."""

    @property
    def room(self) -> int:
        return min(self.credit, self.window - self.in_flight)

    def answer(self, position: DeliveryPosition, now: float, patience: float | None) -> bool:
        """It acknowledged or refused something. True when `passed` has changed, which is never within `patience`."""
        self.answered_at = now
        self.window = self.most
        turned = patience is not None and now - self._turned_at >= patience
        if turned:
            self.passed, self._newest_before, self._turned_at = self._newest_before, self._newest, now
        self._newest = max(self._newest, position)
        return turned


class DeliveryEntry:
    """Offsets [start, end) of one partition."""

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
        """Who has it, while it flies."""
        self.delivery_number = 0
        self.delivered_at = 0.0
        """The number and the time of its last delivery."""
        self.due = 0.0
        """Never, if it flies and this is 0."""
        self.deliveries = 0
        self.failures = 0
        self.reason = ""
        self.stamp = 0
        """Changes with the state, so that timers set before are void."""

    @property
    def rows(self) -> int:
        return self.end - self.start

    def batch(self) -> pa.RecordBatch:
        return self.held.batch.slice(self.start - self.held.first, self.end - self.start)

    def cut(self, at: int) -> DeliveryEntry:
        """Take out the part below `at`."""
        part = DeliveryEntry(self.partition, self.start, at, self.held, self.group)
        part.state, part.consumer, part.due = self.state, self.consumer, self.due
        part.delivery_number, part.delivered_at = self.delivery_number, self.delivered_at
        part.deliveries, part.failures, part.reason = self.deliveries, self.failures, self.reason
        self.start = at
        return part

    def __repr__(self) -> str:
        return f"Entry({self.partition}: {self.start}-{self.end}, {self.state.value})"


class MessageGroup:
    """Messages that keep their order and are with one consumer at a time: a partition's, or those of a key.

    Of each partition, all that fly come before all that wait.
    """

    __slots__ = ("chosen", "chosen_in", "in_flight", "key", "owner", "waiting")

    def __init__(self, key: str) -> None:
        self.key = key
        self.waiting: deque[DeliveryEntry] = deque()
        self.in_flight = 0
        self.owner: ConsumerState | None = None
        """Who has what flies."""
        self.chosen: ConsumerState | None = None
        """Who is to have it next, as of the change of consumers `chosen_in`."""
        self.chosen_in = -1

    def head(self) -> DeliveryEntry | None:
        """The next to be delivered."""
        while self.waiting and self.waiting[0].state is not EntryState.WAITING:
            self.waiting.popleft()
        return self.waiting[0] if self.waiting else None
