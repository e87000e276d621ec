"""Wraps the consumer of the client library for the needs of the door. One thread makes all calls."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka import KafkaError as ClientError

from frazil.config.sections.kafka import KafkaConfig
from frazil.doors.kafka.cluster import PartitionKey
from frazil.doors.kafka.failures import translated
from frazil.doors.kafka.said import client_logger
from frazil.doors.kafka.settings import consumer_settings, create
from frazil.errors import ConsumerClosed, OffsetCommit, PartitionAssignment

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0

_COMMITTING = "Committing the group's offsets"

OnChange = Callable[[list[PartitionKey]], None]
"""Is told of partitions that are assigned, revoked or lost. The client calls it within `consume` or `close` only."""

OnFailure = Callable[[ClientError], None]

OnNotCommitted = Callable[[list[PartitionKey], OffsetCommit], None]
"""Is told of partitions whose offsets the group does not know, and why. `commit` may call it, too."""

_CLOSED = "Consumer closed"
"""The client library says this, in a `RuntimeError`, when somebody uses a consumer that is closed."""


class Client:
    def __init__(self, kafka: KafkaConfig, on_failure: OnFailure, on_not_committed: OnNotCommitted) -> None:
        """`on_failure` is told of failures in the background, of a broker that cannot be reached for example."""
        self._kafka = kafka
        self._reading: set[PartitionKey] = set()
        """These of the assigned partitions are being read, or are paused."""
        self._on_not_committed = on_not_committed
        settings: dict[str, Any] = {
            **consumer_settings(kafka),
            "error_cb": on_failure,
            "on_commit": self._committed,
        }
        self._consumer = create(lambda: Consumer(settings, logger=client_logger()), kafka)

    def subscribe(self, on_assigned: OnChange, on_revoked: OnChange, on_lost: OnChange) -> None:
        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            # Nothing is read yet, because the starting offset is not known. If the client started anywhere and did a
            # seek later, an answer that is on its way at that moment could set the position back.
            self._consumer.incremental_assign([])
            if partitions:
                on_assigned(_keys(partitions))

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            on_revoked(_keys(partitions))
            self._give_back(partitions)

        def lost(_: Consumer, partitions: list[TopicPartition]) -> None:
            on_lost(_keys(partitions))
            self._give_back(partitions)

        self._consumer.subscribe(self._kafka.topics, on_assign=assigned, on_revoke=revoked, on_lost=lost)

    def _give_back(self, partitions: list[TopicPartition]) -> None:
        taken = self._reading.intersection(_keys(partitions))
        self._reading -= taken
        self._consumer.incremental_unassign([TopicPartition(*key) for key in taken])

    def consume(self, idle_seconds: float) -> list[Message]:
        """Return the next messages, and errors in their places. The list is empty when none came in this time.

        The time for a batch begins with its first message, so a single message does not wait for others in vain.
        """
        with _open_consumer("Consuming"):
            try:
                messages = self._consumer.consume(1, idle_seconds)
                if messages and self._kafka.batch_size > 1:
                    rest = self._kafka.batch_size - 1
                    messages += self._consumer.consume(rest, self._kafka.batch_timeout_ms / 1000)
                return messages
            except KafkaException as error:
                raise translated(error, "Consuming") from error

    def pause(self, keys: Collection[PartitionKey]) -> None:
        with _open_consumer("Pausing"):
            self._consumer.pause([TopicPartition(*key) for key in keys if key in self._reading])

    def read_from(self, key: PartitionKey, offset: int) -> None:
        """Read an assigned partition from this offset on. The client hands out no other messages of it any more."""
        doing = f"Reading {key[0]}/{key[1]}"
        with _open_consumer(doing):
            try:
                self._seek(key, TopicPartition(*key, offset))
            except KafkaException as error:
                raise PartitionAssignment(str(translated(error, doing))) from error

    def _seek(self, key: PartitionKey, place: TopicPartition) -> None:
        if key not in self._reading:
            self._consumer.incremental_assign([place])
            self._reading.add(key)
            return
        try:
            self._consumer.resume([place])
            self._consumer.seek(place)
        except KafkaException as error:
            if error.args[0].code() != ClientError._STATE:
                raise
            # After an error the client has given up the partition, which must be assigned again.
            self._consumer.incremental_unassign([place])
            self._consumer.incremental_assign([place])

    def commit(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Commit to the group how far records are stored. Nobody waits for it, and nothing depends on it."""
        places = [TopicPartition(*key, offset) for key, offset in offsets.items()]
        with _open_consumer(_COMMITTING):
            try:
                self._consumer.commit(offsets=places, asynchronous=True)
            except KafkaException as error:
                self._committed(error.args[0], places)

    def close(self) -> None:
        """Leave the group, if that takes no longer than `CLOSE_SECONDS`.

        Brokers that are away keep the client waiting for minutes. Then nobody waits for it, and the group notices
        that this member is silent.
        """
        closing = threading.Thread(target=self._consumer.close, name="kafka-close", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():
            logger.warning("the Kafka client could not leave its group in time")

    def _committed(self, error: ClientError | None, places: list[TopicPartition]) -> None:
        failed = [each for each in places if error or each.error]
        if failed and (cause := error or failed[0].error):
            logger.debug("group offsets were not committed", extra={"reason": str(cause)})
            self._on_not_committed(_keys(failed), OffsetCommit(str(translated(cause, _COMMITTING))))


def _keys(partitions: list[TopicPartition]) -> list[PartitionKey]:
    return [(each.topic, each.partition) for each in partitions]


@contextmanager
def _open_consumer(doing: str) -> Iterator[None]:
    """Raises `ConsumerClosed` when the consumer is closed; other errors pass, for callbacks raise theirs too."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != _CLOSED:
            raise
        raise ConsumerClosed(f"{doing}: the Kafka consumer is closed.") from error
