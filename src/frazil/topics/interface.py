"""What a broker asks of the storage of its topics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from frazil.topics.messages import Message, MessageRun
from frazil.topics.read.cursor import Cursor
from frazil.topics.read.starts import EARLIEST, LATEST, Start
from frazil.topics.subscriptions.options import Kind

if TYPE_CHECKING:
    from frazil.topics.subscriptions.subscription import Subscription


class Producer(NamedTuple):
    """An idempotent producer at work: what it sends again under the same number is stored once."""

    id: str
    sequence: int


class StoredRun(NamedTuple):
    """Messages that were stored together in one partition, as neighbours."""

    partition: int
    first: int
    rows: int
    epoch: str
    duplicate: bool
    """They had been stored before, at these offsets."""
    places: tuple[int, ...] | None = None
    """Which of the given messages they are; None for all of them."""


@dataclass(frozen=True, slots=True)
class StoreResult:
    """Where messages are stored. Those of one run were stored all or none."""

    runs: tuple[StoredRun, ...]

    @property
    def first(self) -> int:
        """The offset of the first message, where all went to one partition."""
        (run,) = self.runs
        return run.first

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Partition and offset of each message, in the order they were given."""
        found: dict[int, tuple[int, int]] = {}
        for run in self.runs:
            places = range(run.rows) if run.places is None else run.places
            found |= {place: (run.partition, run.first + at) for at, place in enumerate(places)}
        return [found[place] for place in sorted(found)]


@dataclass(frozen=True)
class PartitionStats:
    first: int
    """The first offset that can be read."""
    end: int
    """The offset that the next message gets."""
    committed: int
    """What is below is in the table."""

    @property
    def last(self) -> int | None:
        return self.end - 1 if self.end > self.first else None

    @property
    def messages(self) -> int:
        return self.end - self.first

    @property
    def cold(self) -> int:
        return max(0, min(self.committed, self.end) - self.first)

    @property
    def hot(self) -> int:
        return self.messages - self.cold


@dataclass(frozen=True)
class SubscriptionStats:
    lag: Mapping[int, int]
    """Messages that are not acknowledged, by partition."""
    consumers: int = 0

    @property
    def total(self) -> int:
        return sum(self.lag.values())


@dataclass(frozen=True)
class TopicStats:
    topic: str
    partitions: Mapping[int, PartitionStats]
    hot_bytes: int
    """Of what the table does not have yet, as the log has it."""
    cold_bytes: int
    """Of the table's files."""
    subscriptions: Mapping[str, SubscriptionStats] = field(default_factory=dict)

    @property
    def message_count(self) -> int:
        return sum(each.messages for each in self.partitions.values())

    @property
    def hot_messages(self) -> int:
        return sum(each.hot for each in self.partitions.values())

    @property
    def cold_messages(self) -> int:
        return sum(each.cold for each in self.partitions.values())

    @property
    def bytes_stored(self) -> int:
        return self.hot_bytes + self.cold_bytes


class DeletedTopic(NamedTuple):
    topic: str
    messages: int
    """How many it had."""
    unmoved: int
    """How many of them no table has."""


class PersistentStorage(Protocol):
    """Topics by any of their names: `/namespace/name`, `namespace.name` or a plain one."""

    async def create_topic(self, topic: str, partitions: int = 1) -> int:
        """Create it, unless it exists; how many partitions it has."""

    async def initialize_topic(self, topic: str, partitions: int = 1) -> int:
        """As `create_topic`, and ready to take messages at once."""

    async def store(
        self,
        topic: str,
        messages: Sequence[Message] | pa.RecordBatch,
        *,
        partition: int | None = None,
        routing_key: str | None = None,
        producer: Producer | None = None,
    ) -> StoreResult:
        """Store messages; acknowledged as durably as the topic's settings say when this returns."""

    async def create_message_stream(
        self, topic: str, start: Start = EARLIEST, *, follow: bool = True
    ) -> AsyncIterator[MessageRun]:
        """All messages from `start` on, and those that come; in order within each partition."""

    async def subscribe(
        self, topic: str, subscription: str, kind: Kind = Kind.EXCLUSIVE, start: Start = LATEST
    ) -> Subscription:
        """A durable subscription, which consumers join; `start` is for one that is created."""

    async def cursor(self, topic: str, partition: int, start: Start = EARLIEST) -> Cursor:
        """A reader of one partition, for subscriptions."""

    async def get_write_position(self, topic: str) -> Mapping[int, int]:
        """The next offset of each partition."""

    async def get_committed_position(self, topic: str) -> Mapping[int, int]:
        """Up to where each partition is in the table."""

    async def get_topic_stats(self, topic: str) -> TopicStats: ...

    async def list_topics(self) -> Sequence[str]: ...

    async def delete_topic(self, topic: str, *, drop_table: bool) -> DeletedTopic:
        """Delete the topic with what the log has of it; its table is dropped, or kept as it is."""

    async def shutdown(self) -> None:
        """Take no more messages, acknowledge those under way, and seal them."""
