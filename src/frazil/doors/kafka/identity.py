"""Proves that records came from one life of their topic, which is the time between its creation and its deletion.

When a topic is deleted and created again, the client goes on in the new one at the old offset and says nothing. So
before records are sealed, the cluster is asked for the id of the topic. An id never comes back, so everything that
was read before this question came from the topic with the id in the answer.
"""

from __future__ import annotations

from frazil.doors.kafka.cluster import Cluster, Life
from frazil.errors import KafkaTopicMissing, KafkaTopicReplaced


class Proof:
    """Proves it for one partition from the moment it is opened. The writer calls it before it puts a segment."""

    def __init__(self, cluster: Cluster, topic: str, partition: int, identity: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self.identity = identity
        self.read = 0
        """Nothing at or after this offset was read. It is set before records are appended."""
        self._proven = 0
        """Everything that was read below this offset is known to be of this life."""

    def begin(self, position: int) -> None:
        self.read = self._proven = position

    def __call__(self) -> None:
        read = self.read
        if read == self._proven:
            return
        try:
            life = self._cluster.life(self._topic)
        except KafkaTopicMissing:
            # The topic was deleted after all of this was read, and nobody else has these records any more.
            return
        if life.identity == self.identity:
            self._proven = read
        elif self._may_be_of(life):
            raise KafkaTopicReplaced(
                f"{self._topic}/{self._partition}: the Kafka topic with the id {self.identity} was replaced by one "
                f"with the id {life.identity}; which of the two the records from offset {self._proven} to {read} "
                f"came from cannot be told, so they are not stored."
            )

    def _may_be_of(self, successor: Life) -> bool:
        """Tell whether the topic's successor has ever had records at the offsets that are not proven yet."""
        if self._partition >= successor.partitions:
            return False
        key = (self._topic, self._partition)
        return self._cluster.bounds([key])[key].high > self._proven
