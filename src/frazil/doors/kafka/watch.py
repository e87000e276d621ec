"""Asks the cluster every few seconds whether it answers, which ids its topics have, and where they end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import NamedTuple

from frazil.doors.kafka.cluster import Cluster, Life, PartitionKey
from frazil.errors import FrazilError, KafkaError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0

Wanted = Callable[[], tuple[Iterable[str], Iterable[PartitionKey]]]
"""Returns the topics that should exist, and the partitions that are assigned."""


class Sight(NamedTuple):
    cluster: str
    """The cluster that answers has this id."""
    lives: dict[str, Life | KafkaError]
    ends: dict[PartitionKey, int]


class Watch:
    """Has a thread of its own, so that nobody else waits for a cluster that does not answer."""

    def __init__(self, cluster: Cluster, wanted: Wanted, on_failure: Callable[[FrazilError], None]) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._on_failure = on_failure
        self.sights: SimpleQueue[Sight] = SimpleQueue()
        self.unreachable: FrazilError | None = None
        """Says why the cluster did not answer the last time."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop asking. Nobody waits for a question that is under way."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.sights.put(self._look())
                if self.unreachable:
                    logger.info("Kafka answers again")
                self.unreachable = None
            except FrazilError as error:
                self._on_failure(error)
                if self.unreachable is None:
                    logger.warning("Kafka does not answer", extra={"reason": str(error)})
                self.unreachable = error
            self._stopping.wait(LOOK_SECONDS)

    def _look(self) -> Sight:
        topics, partitions = self._wanted()
        cluster = self._cluster.id()
        lives = self._cluster.lives(set(topics))
        there = [key for key in partitions if _has(lives.get(key[0]), key[1])]
        try:
            ends = self._cluster.ends(there)
        except KafkaError:
            # A partition may have no leader, for example. Ends are only needed to show the lag.
            ends = {}
        return Sight(cluster, lives, ends)


def _has(life: Life | KafkaError | None, partition: int) -> bool:
    return isinstance(life, Life) and partition < life.partitions
