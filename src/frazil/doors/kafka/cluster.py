"""Asks a Kafka cluster for everything but records: its topics, their ids and their offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition, Uuid
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._listoffsets import OffsetSpec

from frazil.config.sections.kafka import KafkaConfig
from frazil.doors.kafka.failures import translated
from frazil.doors.kafka.said import client_logger
from frazil.doors.kafka.settings import common_settings, create
from frazil.errors import ConnectionFailed, KafkaError, KafkaTimeout, KafkaTopicMissing

T = TypeVar("T")

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_NO_ID = str(Uuid(0, 0))

PartitionKey = tuple[str, int]
"""Names a partition by its topic and its number."""


@dataclass(frozen=True)
class Life:
    """Describes a topic from its creation to its deletion. A later topic of the same name is another one."""

    identity: str
    partitions: int
    internal: bool = False


class Bounds(NamedTuple):
    """Says which offsets a partition has: from `low` up to, but not including, `high`."""

    low: int
    high: int


class Cluster:
    """Any thread may use it. Every call returns within `seconds`, or raises `KafkaTimeout`."""

    def __init__(self, kafka: KafkaConfig, seconds: float) -> None:
        self._seconds = seconds
        self._servers = ", ".join(kafka.bootstrap_servers)
        self._last_error: tuple[float, ClientError] | None = None
        settings: dict[str, Any] = {**common_settings(kafka), "error_cb": self._remember_error}
        self._client = create(lambda: AdminClient(settings, logger=client_logger()), kafka)
        self._read_committed = settings["isolation.level"] == "read_committed"

    def _remember_error(self, error: ClientError) -> None:
        self._last_error = (time.monotonic(), error)

    def id(self) -> str:
        """Return the id of the cluster that answers now. Other brokers may have taken over the same address."""
        doing = "Asking for the cluster's id"
        asked = self._ask(doing, lambda: self._client.describe_cluster(request_timeout=self._seconds))
        return str(self._result(doing, asked).cluster_id)

    def topics(self) -> dict[str, int]:
        """Return all topics with the number of their partitions, also the topics that Kafka keeps for itself."""
        found = self._ask("Listing the topics", lambda: self._client.list_topics(timeout=self._seconds))
        return {name: len(topic.partitions) for name, topic in found.topics.items()}

    def lives(self, topics: Collection[str]) -> dict[str, Life | KafkaError]:
        """Return the topics of these names as they are now, and an error for each that cannot be described."""
        if not topics:
            return {}
        asked = self._ask(
            "Describing topics",
            lambda: self._client.describe_topics(TopicCollection(list(topics)), request_timeout=self._seconds),
        )
        found: dict[str, Life | KafkaError] = {}
        for name, future in asked.items():
            try:
                told = self._result(f"Describing topic {name!r}", future)
                found[name] = Life(self._identity(told.topic_id), len(told.partitions), told.is_internal)
            except KafkaTopicMissing:
                found[name] = KafkaTopicMissing(
                    f"Kafka at {self._servers} has no topic {name!r}: it was deleted, or the name in `kafka.topics` "
                    f"is wrong. It is consumed as soon as it is there."
                )
            except KafkaError as error:
                if error.retryable:
                    raise
                found[name] = error
        return found

    def _identity(self, topic_id: Uuid) -> str:
        """Return the topic's id, which no other topic of any cluster has. Brokers before Kafka 2.8 have none."""
        return f"cluster {self.id()}" if str(topic_id) == _NO_ID else str(topic_id)

    def life(self, topic: str) -> Life:
        found = self.lives([topic])[topic]
        if isinstance(found, KafkaError):
            raise found
        return found

    def readable(self, topics: Collection[str]) -> set[str]:
        """Return those of the topics that this user may read."""
        asked = self._ask(
            "Asking for rights",
            lambda: self._client.describe_topics(
                TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=self._seconds
            ),
        )
        rights = {
            name: self._result(f"Asking for the rights on topic {name!r}", future).authorized_operations
            for name, future in asked.items()
        }
        # Old brokers do not tell what is permitted.
        return {name for name, allowed in rights.items() if allowed is None or AclOperation.READ in allowed}

    def bounds(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, Bounds]:
        """Return the offsets that these partitions have now. `high` includes records of open transactions."""
        keys = list(partitions)
        low = self._offsets(keys, _EARLIEST)
        high = self._offsets(keys, _LATEST)
        return {key: Bounds(low[key], high[key]) for key in keys}

    def ends(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, int]:
        """Return how far a consumer can read. With `read_committed` that is up to the first open transaction."""
        return self._offsets(partitions, _LATEST, committed=self._read_committed)

    def _offsets(
        self, partitions: Iterable[PartitionKey], spec: OffsetSpec, *, committed: bool = False
    ) -> dict[PartitionKey, int]:
        wanted = {TopicPartition(*key): spec for key in partitions}
        if not wanted:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked: Mapping[TopicPartition, Future[Any]] = self._ask(
            "Asking for offsets",
            lambda: self._client.list_offsets(wanted, isolation_level=level, request_timeout=self._seconds),
        )
        return {
            (each.topic, each.partition): int(
                self._result(f"Asking for the offsets of {each.topic}/{each.partition}", future).offset
            )
            for each, future in asked.items()
        }

    def _ask(self, doing: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except KafkaException as error:
            raise self._failed(doing, error) from error

    def _result(self, doing: str, future: Future[T]) -> T:
        try:
            # The client itself ends the call in time. If it should not, nobody waits for ever.
            return future.result(self._seconds + 5)
        except KafkaException as error:
            raise self._failed(doing, error) from error
        except TimeoutError as error:
            raise KafkaTimeout(f"{doing}: no answer from {self._servers}.") from error

    def _failed(self, doing: str, error: KafkaException) -> KafkaError:
        failed = translated(error, doing)
        self._client.poll(0)
        if isinstance(failed, KafkaTimeout | ConnectionFailed) and self._last_error is not None:
            when, cause = self._last_error
            if time.monotonic() - when < 2 * self._seconds:
                # Why the brokers cannot be reached is of more use than that they did not answer.
                return translated(cause, f"{doing}: no answer from {self._servers}")
        return failed
