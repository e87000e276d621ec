"""Lets a person decide about a topic whose records Kafka no longer has. A running door sees it within seconds."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.clock import World
from frazil.config.model import Config
from frazil.doors.kafka.cluster import Bounds, Cluster, Life
from frazil.doors.kafka.gaps import gap, never_read
from frazil.doors.kafka.positions import Marks, Place, Standing, standing_of
from frazil.doors.kafka.settings import reset_policy
from frazil.errors import KafkaError, KafkaTopicMissing
from frazil.formats.kafka import is_kafka
from frazil.log.topics.schemas import TopicSchemas, list_partitions
from frazil.store import ObjectStore

ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Gap:
    """Describes a partition that cannot be read on, and where reading would go on."""

    partition: int
    error: KafkaError
    standing: Standing
    left: Place | None
    onward: Place
    partitions: int


class KafkaPositions:
    """Knows the positions of one topic. Each call reads the store and asks Kafka again."""

    def __init__(self, config: Config, store: ObjectStore, topic: str, world: World | None = None) -> None:
        self._config = config
        self._store = store
        self._topic = topic
        self._world = world or World()
        self._cluster = Cluster(config.kafka, ANSWER_SECONDS)

    @classmethod
    def of(cls, config: Config, store: ObjectStore, topic: str) -> KafkaPositions | None:
        """Return None when the topic does not come from Kafka, or the settings name no brokers."""
        newest = TopicSchemas(store, topic).latest()
        if not config.kafka.bootstrap_servers or newest is None or not is_kafka(newest.schema):
            return None
        return cls(config, store, topic)

    def gaps(self) -> list[Gap]:
        """Return what keeps partitions from being read on. Nothing is changed."""
        try:
            life = self._cluster.life(self._topic)
        except KafkaTopicMissing:
            # Nobody can decide anything before the topic exists again.
            return []
        partitions = [each for each in list_partitions(self._store, self._topic) if each < life.partitions]
        bounds = self._cluster.bounds([(self._topic, each) for each in partitions])
        found = [self._look(each, life, bounds[self._topic, each]) for each in partitions]
        return [each for each in found if each]

    def accept(self) -> list[str]:
        """Let such partitions go on at the earliest offset that Kafka has, and return sentences about it."""
        done = []
        for each in self.gaps():
            marks = Marks(self._store, self._topic, each.partition, self._world)
            onward = marks.lead(each.standing, each.left, each.onward, each.partitions)
            done.append(f"{self._topic}/{each.partition} goes on at Kafka's offset {onward.position}.")
        return done

    def _look(self, partition: int, life: Life, bounds: Bounds) -> Gap | None:
        standing = standing_of(self._store, self._topic, partition)
        place = Marks(self._store, self._topic, partition, self._world).follow(standing)
        error: KafkaError | None = None
        if place is not None:
            error = gap(self._topic, partition, place, life, bounds)
        elif reset_policy(self._config.kafka) == "error":
            error = never_read(self._topic, partition, bounds)
        onward = Place(life.identity, bounds.low)
        return Gap(partition, error, standing, place, onward, life.partitions) if error else None
