"""Opens a Kafka partition: its writer, and the place where to read on."""

from __future__ import annotations

from typing import NamedTuple

from frazil.config.model import Config
from frazil.doors.kafka.cluster import Bounds, Cluster, Life
from frazil.doors.kafka.gaps import gap, never_read, replaced
from frazil.doors.kafka.identity import Proof
from frazil.doors.kafka.positions import Marks, Place, Standing, beginnings, place_in
from frazil.doors.kafka.settings import reset_policy, writer_options
from frazil.errors import ConfigError, KafkaTopicMissing, PartitionTaken, SchemaMismatch
from frazil.formats import kafka
from frazil.log import layout
from frazil.log.claims import claim, owner
from frazil.log.log import Log
from frazil.log.writer.writer import PartitionWriter


def not_from_kafka(config: Config, topic: str) -> SchemaMismatch:
    elsewhere = "`data_dir`" if config.store.url is None else "`data_dir` and another `store.url`"
    return SchemaMismatch(
        f"There is a topic {topic!r} already, with records that did not come from Kafka. Leave one of the two out, "
        f"or give this Frazil another {elsewhere}."
    )


class Opened(NamedTuple):
    writer: PartitionWriter
    place: Place
    proof: Proof


class Opener:
    """Any thread may use it. It finds out what is wrong with a topic or a partition before that is read."""

    def __init__(self, config: Config, log: Log, cluster: Cluster) -> None:
        self._config = config
        self._log = log
        self._cluster = cluster
        self._reset = reset_policy(config.kafka)

    def life(self, topic: str) -> Life:
        """Return the topic as it is now. Raises an error if it cannot be a topic of Frazil."""
        layout.check_topic(topic)
        writer_options(self._config, topic)
        if self._config.is_telemetry(topic):
            raise ConfigError(
                f"{topic!r} is a topic of the doors for telemetry; `otlp.enabled: false`, `loki.enabled: false` and "
                f"`prometheus.enabled: false` leave it to Kafka."
            )
        life = self._cluster.life(topic)
        if life.internal:
            raise ConfigError(f"{topic!r} is a topic that Kafka keeps for itself.")
        newest = self._log.schemas(topic).latest()
        if newest and not kafka.is_kafka(newest.schema):
            raise not_from_kafka(self._config, topic)
        return life

    def is_gone(self, topic: str) -> bool:
        """Tell whether the topic was deleted, so that nobody can read it again."""
        try:
            self._cluster.life(topic)
        except KafkaTopicMissing:
            return True
        return False

    def open(self, topic: str, partition: int, life: Life) -> Opened:
        proof = Proof(self._cluster, topic, partition, life.identity)
        writer = self._log.writer(
            topic,
            kafka.SCHEMA,
            partition=partition,
            options=writer_options(self._config, topic),
            confirm=proof,
        )
        try:
            place = self._starting_place(writer, life)
        except BaseException:
            self._log.release(writer)
            raise
        proof.begin(place.position)
        return Opened(writer, place, proof)

    def _starting_place(self, writer: PartitionWriter, life: Life) -> Place:
        topic, partition = writer.topic, writer.partition
        standing = Standing(writer.next_offset, place_in(writer.feeders, topic, partition))
        if standing.place is None:
            self._claim(topic, partition)
        marks = Marks(self._log.store, topic, partition, self._log.world)
        place = marks.follow(standing)
        bounds = self._cluster.bounds([(topic, partition)])[topic, partition]
        if place is None:
            self._check_life(topic, partition, life)
            begin = Place(life.identity, self._first_position(topic, partition, life, bounds))
            place = marks.lead(standing, None, begin, life.partitions)
        if problem := gap(topic, partition, place, life, bounds):
            raise problem
        return place

    def _claim(self, topic: str, partition: int) -> None:
        """Claim the log's partition of this number for Kafka, so that no node ever uses it for its own records."""
        name = f"kafka:{topic}"
        if not claim(self._log.store, topic, partition, name, self._log.world):
            raise PartitionTaken(
                f"Partition {partition} of topic {topic!r} belongs to node "
                f"{owner(self._log.store, topic, partition)}, which appended records of its own to it; Kafka's "
                f"cannot be stored there."
            )

    def _check_life(self, topic: str, partition: int, life: Life) -> None:
        """Check that a new partition belongs to the topic whose other partitions were read, if any were."""
        others = set()
        for begun in beginnings(self._log.store, topic):
            if begun.identity == life.identity:
                return
            others.add(begun.identity)
        if others:
            raise replaced(topic, partition, sorted(others), life)

    def _first_position(self, topic: str, partition: int, life: Life, bounds: Bounds) -> int:
        """Return the offset where a partition begins that was never read."""
        if self._reset == "error":
            raise never_read(topic, partition, bounds)
        if self._reset == "earliest":
            return bounds.low
        counts = [begun.partitions for begun in beginnings(self._log.store, topic) if begun.identity == life.identity]
        # All records of a partition that was added later are newer than the moment that `latest` meant.
        return bounds.low if counts and partition >= min(counts) else bounds.high
