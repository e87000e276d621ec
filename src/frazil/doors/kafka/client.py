"""The client library's consumer, in the words that the door needs. All calls are made by one thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Message, TopicPartition
from confluent_kafka import KafkaError as ClientError

from frazil.config.model import KafkaConfig
from frazil.doors.kafka.cluster import PartitionKey
from frazil.doors.kafka.failures import translated
from frazil.doors.kafka.said import client_logger
from frazil.doors.kafka.settings import consumer_settings, create
from frazil.errors import PartitionAssignment

OnChange = Callable[[list[PartitionKey]], None]
"""Told of partitions that are assigned, revoked or lost; within a call of `consume` or `close`."""

OnFailure = Callable[[ClientError], None]


class Client:
    def __init__(self, kafka: KafkaConfig, on_failure: OnFailure, on_commit_failure: OnFailure) -> None:
        """`on_failure` is told of what fails in the background: of a broker that cannot be reached, say."""
        self._kafka = kafka
        self._on_commit_failure = on_commit_failure
        settings: dict[str, Any] = {
            **consumer_settings(kafka),
            "error_cb": on_failure,
            "on_commit": self._committed,
        }
        self._consumer = create(lambda: Consumer(settings, logger=client_logger()), kafka)

    def subscribe(self, on_assigned: OnChange, on_revoked: OnChange, on_lost: OnChange) -> None:
        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            # Where to begin is not known yet. Nothing is read from the end, and nothing can fail there.
            ends = [TopicPartition(each.topic, each.partition, OFFSET_END) for each in partitions]
            self._consumer.incremental_assign(ends)
            self._consumer.pause(partitions)
            on_assigned(_keys(partitions))

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            on_revoked(_keys(partitions))
            self._consumer.incremental_unassign(partitions)

        def lost(_: Consumer, partitions: list[TopicPartition]) -> None:
            on_lost(_keys(partitions))
            self._consumer.incremental_unassign(partitions)

        self._consumer.subscribe(self._kafka.topics, on_assign=assigned, on_revoke=revoked, on_lost=lost)

    def consume(self) -> list[Message]:
        """The next messages, and errors in their places; few or none when the time for a batch is over."""
        try:
            return self._consumer.consume(self._kafka.batch_size, self._kafka.batch_timeout_ms / 1000)
        except KafkaException as error:
            raise translated(error, "Consuming") from error

    def pause(self, keys: Collection[PartitionKey]) -> None:
        self._consumer.pause([TopicPartition(*key) for key in keys])

    def read_from(self, key: PartitionKey, offset: int) -> None:
        """Read a partition that is paused from this offset on; nothing else of it is handed out any more."""
        place = TopicPartition(*key, offset)
        try:
            try:
                self._consumer.resume([place])
                self._consumer.seek(place)
            except KafkaException as error:
                if error.args[0].code() != ClientError._STATE:
                    raise
                # After an error the client has given the partition up, and only takes it anew.
                self._consumer.incremental_unassign([place])
                self._consumer.incremental_assign([place])
                self._consumer.resume([place])
        except KafkaException as error:
            raise _not_taken(key, error) from error

    def commit(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Tell the group how far records are stored. Nobody waits for it, and nothing depends on it."""
        places = [TopicPartition(*key, offset) for key, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            self._on_commit_failure(error.args[0])

    def close(self) -> None:
        """Leave the group; what is still assigned is revoked first."""
        self._consumer.close()

    def _committed(self, error: ClientError | None, places: list[TopicPartition]) -> None:
        failed = next(filter(None, [error, *(each.error for each in places)]), None)
        if failed is not None:
            self._on_commit_failure(failed)


def _keys(partitions: list[TopicPartition]) -> list[PartitionKey]:
    return [(each.topic, each.partition) for each in partitions]


def _not_taken(key: PartitionKey, error: KafkaException) -> PartitionAssignment:
    return PartitionAssignment(str(translated(error, f"Reading {key[0]}/{key[1]}")))
