"""Defines what a broker asks of the storage of its topics."""

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
    """Identifies a request of an idempotent producer. A request that is repeated with the same number is stored
    once."""

    id: str
    sequence: int


class StoredRun(NamedTuple):
    """Says where messages were stored together in one partition, at successive offsets."""

    partition: int
    first: int
    rows: int
    epoch: str
    duplicate: bool
    """It is true if the messages had been stored before, at these offsets."""
    places: tuple[int, ...] | None = None
    """These are the positions of the messages in the request. It is None if they are all of them."""


@dataclass(frozen=True, slots=True)
class StoreResult:
    """Says where messages are stored. All messages of a run were stored, or none."""

    runs: tuple[StoredRun, ...]

    @property
    def first(self) -> int:
        """Returns the offset of the first message, if all went to one partition."""
        (run,) = self.runs
        return run.first

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Returns the partition and offset of each message, in the order they were given."""
        found: dict[int, tuple[int, int]] = {}
        for run in self.runs:
            places = range(run.rows) if run.places is None else run.places
            found |= {place: (run.partition, run.first + at) for at, place in enumerate(places)}
        return [found[place] for place in sorted(found)]


@dataclass(frozen=True)
class PartitionStats:
    first: int
    """This is the first offset that can be read."""
    end: int
    """The next message gets this offset."""
    committed: int
    """Messages below this offset are in the table."""

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
    """These are the numbers of unacknowledged messages by partition."""
    consumers: int = 0

    @property
    def total(self) -> int:
        return sum(self.lag.values())


@dataclass(frozen=True)
class TopicStats:
    topic: str
    partitions: Mapping[int, PartitionStats]
    hot_bytes: int
    """This is the size in the log of what the table does not have yet."""
    cold_bytes: int
    """This is the size of the table's files."""
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
    """The topic had this many messages."""
    unmoved: int
    """So many of them are in no table."""


class PersistentStorage(Protocol):
    """Stores topics. A topic may be named `/namespace/name`, `namespace.name` or by a plain name."""

    async def create_topic(self, topic: str, partitions: int = 1) -> int:
        """Creates a topic unless it exists, and returns the number of its partitions."""

    async def initialize_topic(self, topic: str, partitions: int = 1) -> int:
        """Creates a topic like `create_topic`, and makes it ready to take messages at once."""

    async def store(
        self,
        topic: str,
        messages: Sequence[Message] | pa.RecordBatch,
        *,
        partition: int | None = None,
        routing_key: str | None = None,
        producer: Producer | None = None,
    ) -> StoreResult:
        """Stores messages. When this returns, they are as durable as the topic's settings say."""

    async def create_message_stream(
        self, topic: str, start: Start = EARLIEST, *, follow: bool = True
    ) -> AsyncIterator[MessageRun]:
        """Yields all messages from `start` on and then new ones. They are in order within each partition."""

    async def subscribe(
        self, topic: str, subscription: str, kind: Kind = Kind.EXCLUSIVE, start: Start = LATEST
    ) -> Subscription:
        """Opens a durable subscription, which consumers join. `start` is for one that is created."""

    async def cursor(self, topic: str, partition: int, start: Start = EARLIEST) -> Cursor:
        """Opens a reader of one partition, for subscriptions."""

    async def get_write_position(self, topic: str) -> Mapping[int, int]:
        """Returns the next offset of each partition."""

    async def get_committed_position(self, topic: str) -> Mapping[int, int]:
        """Returns the offsets below which messages are in the table, by partition."""

    async def get_topic_stats(self, topic: str) -> TopicStats: ...

    async def list_topics(self) -> Sequence[str]: ...

    async def delete_topic(self, topic: str, *, drop_table: bool) -> DeletedTopic:
        """Deletes the topic with its records in the log. Its table is dropped, or kept as it is."""

    async def shutdown(self) -> None:
        """Takes no more messages, acknowledges those in progress, and seals them."""
