"""What was read and is not acknowledged, and the consumers it goes to.

An entry is a range of neighbours that have the same fate so far; it is cut where fates part.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

import pyarrow as pa

from frazil.topics.messages import MESSAGE
from frazil.topics.subscriptions.keys import Accepts


class State(Enum):
    WAITING = "waiting"
    """To be delivered, not before it is due."""
    FLYING = "flying"
    """Delivered; given up on when it is due."""
    DEAD = "dead"
    """On its way to the dead-letter topic."""
    SETTLED = "settled"
    """Nothing more is to be done."""


class Run:
    """Rows in memory, shared by entries."""

    __slots__ = ("batch", "epoch", "first", "live", "nbytes")

    def __init__(self, first: int, batch: pa.RecordBatch, epoch: str, live: int) -> None:
        self.first = first
        self.batch = batch
        self.epoch = epoch
        self.live = live
        """Rows that are not settled."""
        self.nbytes = int(batch.nbytes)


NO_RUN = Run(0, pa.RecordBatch.from_pylist([], schema=MESSAGE), "", 0)
"""Of entries that are settled: whoever still knows them keeps no rows in memory."""


Flown = tuple[int, int]
"""The number of a delivery, and an offset in it: in this order a consumer gets messages."""


class Seat:
    """A consumer that has joined."""

    __slots__ = (
        "_newest",
        "_newest_before",
        "_turned_at",
        "accepts",
        "answered_at",
        "credit",
        "flying",
        "id",
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
        self._newest: Flown = (0, 0)
        """Of all that it answered, what it got last."""
        self._newest_before: Flown = (0, 0)
        """The same, as of when the clock was turned."""
        self._turned_at = 0.0
        self.passed: Flown = (0, 0)
        """What it got before this, and did not answer for a while after it had answered this, it has forgotten."""
        self.accepts = accepts
        """Which keys it wants; None if all."""
        self.credit = 0
        """How many more messages it asked for."""
        self.flying = 0
        """Messages that it has and did not settle."""
        self.queue: dict[Strand, None] = {}
        """Strands that may have something for it, the longest waiting first."""

    @property
    def room(self) -> int:
        return min(self.credit, self.window - self.flying)

    def answer(self, flown: Flown, now: float, patience: float | None) -> bool:
        """It acknowledged or refused something. True when `passed` has changed, which is never within `patience`."""
        self.answered_at = now
        self.window = self.most
        turned = patience is not None and now - self._turned_at >= patience
        if turned:
            self.passed, self._newest_before, self._turned_at = self._newest_before, self._newest, now
        self._newest = max(self._newest, flown)
        return turned


class Entry:
    """Offsets [start, end) of one partition."""

    __slots__ = (
        "deliveries",
        "due",
        "end",
        "failures",
        "flight",
        "flown_at",
        "partition",
        "reason",
        "run",
        "seat",
        "stamp",
        "start",
        "state",
        "strand",
    )

    def __init__(self, partition: int, start: int, end: int, run: Run, strand: Strand | None) -> None:
        self.partition = partition
        self.start = start
        self.end = end
        self.run = run
        self.strand = strand
        self.state = State.WAITING
        self.seat: Seat | None = None
        """Who has it, while it flies."""
        self.flight = 0
        self.flown_at = 0.0
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
        return self.run.batch.slice(self.start - self.run.first, self.end - self.start)

    def cut(self, at: int) -> Entry:
        """Take out the part below `at`."""
        part = Entry(self.partition, self.start, at, self.run, self.strand)
        part.state, part.seat, part.due = self.state, self.seat, self.due
        part.flight, part.flown_at = self.flight, self.flown_at
        part.deliveries, part.failures, part.reason = self.deliveries, self.failures, self.reason
        self.start = at
        return part

    def __repr__(self) -> str:
        return f"Entry({self.partition}: {self.start}-{self.end}, {self.state.value})"


class Strand:
    """Messages that keep their order and are with one consumer at a time: a partition's, or those of a key.

    Of each partition, all that fly come before all that wait.
    """

    __slots__ = ("chosen", "chosen_in", "flying", "key", "owner", "waiting")

    def __init__(self, key: str) -> None:
        self.key = key
        self.waiting: deque[Entry] = deque()
        self.flying = 0
        self.owner: Seat | None = None
        """Who has what flies."""
        self.chosen: Seat | None = None
        """Who is to have it next, as of the change of consumers `chosen_in`."""
        self.chosen_in = -1

    def head(self) -> Entry | None:
        """The next to be delivered."""
        while self.waiting and self.waiting[0].state is not State.WAITING:
            self.waiting.popleft()
        return self.waiting[0] if self.waiting else None
