"""Lets tests use a Kafka broker besides what Frazil does with it: create topics, produce, delete."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.servers.broker import PASSWORD, USER

_SECONDS = 30.0
_ASK_SECONDS = 5.0
_ANY_PARTITION = -1
_NOTHING: Mapping[str, str] = {}


class Record(NamedTuple):
    """A record to produce. Without a partition it goes where its key's hash says."""

    value: bytes | None
    key: bytes | None = None
    partition: int = _ANY_PARTITION
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int = 0


class RecordPosition(NamedTuple):
    """The partition and offset of a record."""

    partition: int
    offset: int


@dataclass(frozen=True)
class KafkaServer:
    """A broker by its address. A test keeps to topics and groups of its own."""

    bootstrap: str
    secured: str

    @classmethod
    def at(cls, endpoint: str) -> KafkaServer:
        """Returns the server at the endpoint of a `Broker`."""
        return cls(*endpoint.split(" "))

    @property
    def sasl(self) -> dict[str, str | int | float | bool]:
        """Returns librdkafka's settings for the address that asks for SASL."""
        return {
            "bootstrap.servers": self.secured,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def create_topic(self, partitions: int = 1, config: Mapping[str, str] = _NOTHING, name: str | None = None) -> str:
        """Creates a topic that is ready to be written and read. Without a name it gets one that nobody has."""
        name = name or f"t{uuid.uuid4().hex}"
        self._admin.create_topics([NewTopic(name, partitions, 1, config=dict(config))])[name].result(_SECONDS)
        self._wait_for(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(_SECONDS)
        self._wait_for(name, 0)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Let a topic have this many partitions."""
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(_SECONDS)
        self._wait_for(name, partitions)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records below an offset, as retention does."""
        place = TopicPartition(topic, partition, before)
        self._admin.delete_records([place])[place].result(_SECONDS)

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        """Returns the earliest offset that exists, and the next one."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "watermarks"})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
            return low, high
        finally:
            consumer.close()

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Returns the offsets that a consumer group has committed, by partition."""
        until = time.monotonic() + _SECONDS
        while True:
            # The admin client can ask this as well, but crashes at times when a broker was away.
            consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
            try:
                partitions = consumer.list_topics(topic, _ASK_SECONDS).topics[topic].partitions
                places = consumer.committed([TopicPartition(topic, each) for each in partitions], _ASK_SECONDS)
                return {place.partition: place.offset for place in places if place.offset >= 0}
            except KafkaException:
                # The group's coordinator is available a while after its broker has started.
                if time.monotonic() > until:
                    raise
            finally:
                consumer.close()

    def group_members(self, group: str) -> int:
        return len(self._admin.describe_consumer_groups([group])[group].result(_SECONDS).members)

    def produce(self, topic: str, records: Iterable[Record]) -> list[RecordPosition]:
        """Write records, and return where they are, in their order.

        All of them are acknowledged when this returns.
        """
        # A new producer each time, because one that knows a topic does not notice new partitions at once.
        settings = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 2}
        return _send(Producer(settings), topic, records)

    def committed(self, topic: str) -> dict[RecordPosition, Record]:
        """Returns all records of a topic that Kafka shows to a consumer of committed transactions."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "committed",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            partitions = consumer.list_topics(topic, _SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
            return _read_to_the_end(consumer, set(partitions))
        finally:
            consumer.close()

    def transactions(self, name: str | None = None, **settings: str | int) -> Transactions:
        """Returns a writer of transactions. A second one with the same name fences the first."""
        return Transactions(self.bootstrap, name or f"t{uuid.uuid4().hex}", settings)

    def _wait_for(self, name: str, partitions: int) -> None:
        """Wait until the broker knows a change that the controller knows already, though both are one process."""
        until = time.monotonic() + _SECONDS
        while True:
            found = self._admin.list_topics(name, timeout=_SECONDS).topics[name].partitions.values()
            if len(found) == partitions and all(partition.leader >= 0 for partition in found):
                return
            assert time.monotonic() < until, f"{name} has {len(found)} partitions, not {partitions}"
            time.sleep(0.02)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


class Transactions:
    """Writes one transaction with each call. The marker of its end takes the offset after its records."""

    def __init__(self, bootstrap: str, name: str, settings: Mapping[str, str | int]) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 2, **settings}
        )
        self._producer.init_transactions(_SECONDS)

    def commit(self, topic: str, records: Iterable[Record]) -> list[RecordPosition]:
        places = self.open(topic, records)
        self._producer.commit_transaction(_SECONDS)
        return places

    def abort(self, topic: str, records: Iterable[Record]) -> list[RecordPosition]:
        """Write records and abort, and return where the records are that nobody may see."""
        places = self.open(topic, records)
        self._producer.abort_transaction(_SECONDS)
        return places

    def open(self, topic: str, records: Iterable[Record]) -> list[RecordPosition]:
        """Write records and leave the transaction open: it ends when it times out, or with `end`."""
        self._producer.begin_transaction()
        return _send(self._producer, topic, records)

    def end(self, *, commit: bool) -> None:
        if commit:
            self._producer.commit_transaction(_SECONDS)
        else:
            self._producer.abort_transaction(_SECONDS)


def _read_to_the_end(consumer: Consumer, reading: set[int]) -> dict[RecordPosition, Record]:
    found: dict[RecordPosition, Record] = {}
    while reading:
        message = consumer.poll(_SECONDS)
        assert message is not None, f"no answer for partitions {reading}"
        error = message.error()
        if error is None:
            place, record = _received(message)
            assert place not in found
            found[place] = record
        elif error.code() == KafkaError._PARTITION_EOF:
            reading.discard(_known(message.partition()))
        else:
            raise AssertionError(error)
    return found


def _received(message: Message) -> tuple[RecordPosition, Record]:
    place = RecordPosition(_known(message.partition()), _known(message.offset()))
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return place, Record(message.value(), message.key(), place.partition, headers, message.timestamp()[1])


def _known(number: int | None) -> int:
    """Checks that a number is known: a record that came from a broker has a partition and an offset."""
    assert number is not None
    return number


def _send(producer: Producer, topic: str, records: Iterable[Record]) -> list[RecordPosition]:
    delivered: dict[int, RecordPosition] = {}
    count = 0
    for count, record in enumerate(records, 1):
        _queue(producer, topic, record, _Receipt(count - 1, delivered))
    producer.flush(_SECONDS)
    assert len(delivered) == count, f"{topic}: {len(delivered)} of {count} records were acknowledged"
    return [delivered[number] for number in range(count)]


class _Receipt:
    def __init__(self, number: int, delivered: dict[int, RecordPosition]) -> None:
        self._number = number
        self._delivered = delivered

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self._delivered[self._number] = RecordPosition(_known(message.partition()), _known(message.offset()))


def _queue(producer: Producer, topic: str, record: Record, receipt: _Receipt) -> None:
    while True:
        with suppress(BufferError):
            producer.produce(
                topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=receipt,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
            return
        producer.poll(0.1)
