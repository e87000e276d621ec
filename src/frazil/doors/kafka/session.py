"""A session is one membership of the consumer group, from joining to leaving."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import compress
from operator import not_
from queue import Empty

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import Message

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.doors.kafka.assignment import Assignment
from frazil.doors.kafka.client import Client
from frazil.doors.kafka.cluster import Cluster, Life, PartitionKey
from frazil.doors.kafka.failures import translated
from frazil.doors.kafka.feed import NOTHING, Feed
from frazil.doors.kafka.metrics import KafkaMetrics
from frazil.doors.kafka.opening import Opener
from frazil.doors.kafka.pressure import Pressure
from frazil.doors.kafka.records import Run, by_partition
from frazil.doors.kafka.settings import is_pattern, named_topics
from frazil.doors.kafka.watch import Sight, Watch
from frazil.errors import (
    BackpressureEngaged,
    ConnectionFailed,
    FrazilError,
    KafkaError,
    KafkaOffsetsGone,
    KafkaRefused,
    KafkaTopicMissing,
    KafkaTopicReplaced,
    OffsetCommit,
)
from frazil.failpoints import failpoint
from frazil.log.log import Log
from frazil.ops.retry import backoff_of

logger = logging.getLogger(__name__)

PERIODIC_WORK_SECONDS = 0.1
"""Partitions are looked after this often, while messages come and while none do."""
COMMIT_SECONDS = 1.0
"""Group offsets are committed this often."""
REVOKE_SECONDS = 10.0
"""Sealing may take this long before a partition is given up. Its next owner waits meanwhile."""


class Session:
    """Only the consumer's thread may use it, except for `problems` and `feeds`."""

    def __init__(self, config: Config, log: Log, cluster: Cluster, metrics: KafkaMetrics) -> None:
        kafka = config.kafka
        self._metrics = metrics
        self._named = named_topics(kafka)
        self._most_bytes = config.log.max_append_mb * MIB
        self._pressure = Pressure(config.buffer)
        self._client = Client(kafka, self._failed, self._not_committed)
        self._assignment = Assignment(
            self._client, log, Opener(config, log, cluster), backoff_of(kafka.retry), metrics
        )
        self._watch = Watch(cluster, self._wanted, metrics.errors.count)
        self._refused: KafkaError | None = None
        self._fatal: KafkaError | None = None
        self._cluster_id = ""
        self._periodic_work_at = self._committed_at = float("-inf")

    @property
    def feeds(self) -> list[Feed]:
        return self._assignment.feeds

    def problems(self) -> dict[str, FrazilError]:
        """Return why topics are stopped, and what keeps all topics from being read."""
        general = {"brokers": self._watch.unreachable, "consumer group": self._refused}
        return {**self._assignment.problems(), **{where: problem for where, problem in general.items() if problem}}

    def run(self, stopping: threading.Event, sealing_seconds: float) -> None:
        """Consume until `stopping` is set, then seal what was consumed and leave the group."""
        try:
            self._client.subscribe(self._assigned, self._revoked, self._lost)
            self._watch.start()
            while not stopping.is_set():
                if messages := self._client.consume(PERIODIC_WORK_SECONDS):
                    self._append_all(messages)
                if self._fatal:
                    raise self._fatal
                self._do_periodic_work()
            self._assignment.give_up([feed.key for feed in self.feeds], sealing_seconds)
        finally:
            self._watch.stop()
            self._assignment.drop([feed.key for feed in self.feeds])
            self._client.close()
            self._assignment.close()

    # --- what the group does -------------------------------------------------------------------------------

    def _assigned(self, keys: list[PartitionKey]) -> None:
        logger.info("partitions assigned", extra=_counted(keys))
        self._metrics.assigned({topic for topic, _ in keys})
        self._refused = None
        self._assignment.add(keys)
        failpoint("kafka.assigned")

    def _revoked(self, keys: list[PartitionKey]) -> None:
        logger.info("partitions revoked", extra=_counted(keys))
        self._metrics.rebalances.labels("revoked").inc()
        self._assignment.give_up(keys, REVOKE_SECONDS)
        failpoint("kafka.revoked")

    def _lost(self, keys: list[PartitionKey]) -> None:
        logger.warning("partitions lost: they have other owners already", extra=_counted(keys))
        self._metrics.rebalances.labels("lost").inc()
        self._assignment.drop(keys)

    def _failed(self, error: ClientError) -> None:
        """Handle an error that the client reports; the client logs it, too."""
        problem = translated(error, "The Kafka client")
        self._metrics.errors.count(problem)
        if error.fatal():
            self._fatal = problem
        elif isinstance(problem, KafkaRefused):
            self._refused = problem

    def _not_committed(self, keys: list[PartitionKey], problem: OffsetCommit) -> None:
        self._metrics.commit_failures.inc()
        self._metrics.errors.count(problem)
        self._assignment.commit_again(keys)
        # All offsets are committed again: in a rebalance all commits fail, and no new record may come after it.
        for feed in self.feeds:
            feed.committed = NOTHING

    # --- messages ------------------------------------------------------------------------------------------

    def _append_all(self, messages: list[Message]) -> None:
        errors = list(map(Message.error, messages))
        told: Iterable[Message] = ()
        if any(errors):
            told = compress(messages, errors)
            messages = list(compress(messages, map(not_, errors)))
        left = set()
        for key, run in by_partition(messages).items():
            feed = self._assignment.running(key)
            # Messages of other partitions were on their way when these were paused or revoked.
            if feed and not feed.paused and not self._append_run(feed, run):
                left.add(key)
        for message in told:
            self._handle_error_event(message, left)

    def _append_run(self, feed: Feed, run: Run) -> bool:
        """Append messages of one partition, and tell whether all were appended. The rest is read again."""
        if feed.doubts(run):
            self._assignment.read(feed)
            return False
        try:
            for batch in feed.append(run, self._most_bytes):
                self._metrics.messages.labels(feed.topic).inc(batch.num_rows)
                self._metrics.bytes.labels(feed.topic).inc(batch.nbytes)
        except BackpressureEngaged:
            self._assignment.works(feed.topic)
            self._pause([feed])
            return False
        except FrazilError as error:
            self._handle_failure(feed, error)
            return False
        except Exception as error:
            # Whatever went wrong is about these records, so the other partitions are read on.
            logger.exception("records could not be appended", extra={"topic": feed.topic})
            where = f"Records of {feed.topic}/{feed.partition} from offset {run[0].offset()} on"
            self._handle_failure(
                feed, FrazilError(f"{where} could not be appended: {type(error).__name__}: {error}.")
            )
            return False
        self._assignment.works(feed.topic)
        return True

    def _handle_error_event(self, message: Message, left: Collection[PartitionKey]) -> None:
        """Handle an error, or the end of a partition, which the client hands out in the place of a message."""
        error, topic = message.error(), message.topic()
        assert error
        feed = self._assignment.running((topic, message.partition() or 0)) if topic else None
        if error.code() == ClientError._PARTITION_EOF:
            if feed and not feed.paused and feed.key not in left:
                feed.caught_up = message.offset() or 0
                self._assignment.works(feed.topic)
            return
        problem = translated(error, f"Consuming {topic}" if topic else "Consuming")
        if error.fatal():
            raise problem
        if topic and is_pattern(topic) and isinstance(problem, KafkaTopicMissing):
            # No topic matches the pattern yet, which is not a problem.
            return
        if isinstance(problem, KafkaOffsetsGone):
            if feed:
                # Opening the partition again finds out which offsets there are.
                self._assignment.reopen(feed, problem)
        elif topic and isinstance(problem, KafkaTopicMissing | KafkaRefused):
            self._assignment.stop_topic(topic, problem)
        else:
            self._metrics.errors.count(problem)
            if isinstance(problem, KafkaRefused):
                self._refused = problem
            logger.info("the Kafka client had trouble", extra={"reason": str(problem)})

    # --- periodic work -------------------------------------------------------------------------------------

    def _do_periodic_work(self) -> None:
        now = time.monotonic()
        if now - self._periodic_work_at < PERIODIC_WORK_SECONDS:
            return
        self._periodic_work_at = now
        self._assignment.tend()
        for feed in self.feeds:
            if feed.writer and (problem := feed.collect()):
                self._handle_failure(feed, problem)
        self._apply_backpressure()
        if now - self._committed_at >= COMMIT_SECONDS:
            self._committed_at = now
            self._assignment.commit(self.feeds)
            failpoint("kafka.committed")
        with suppress(Empty):
            self._apply_sight(self._watch.sights.get_nowait())

    def _handle_failure(self, feed: Feed, problem: FrazilError) -> None:
        if problem.retryable:
            self._assignment.reopen(feed, problem)
        else:
            self._assignment.stop_topic(feed.topic, problem)

    def _apply_backpressure(self) -> None:
        change = self._pressure.look(self.feeds)
        self._pause(change.paused)
        for feed in change.resumed:
            self._assignment.read(feed)
        if change.resumed:
            logger.info("there is room again", extra={"partitions": len(change.resumed)})

    def _pause(self, feeds: list[Feed]) -> None:
        if not feeds:
            return
        self._client.pause([feed.key for feed in feeds])
        for feed in feeds:
            feed.paused = True
            self._metrics.backpressure.labels(feed.topic).inc()
        logger.info("paused until more is sealed", extra={"partitions": len(feeds)})

    def _wanted(self) -> tuple[set[str], list[PartitionKey]]:
        keys = [feed.key for feed in self.feeds]
        return {*self._named, *(topic for topic, _ in keys)}, keys

    def _apply_sight(self, sight: Sight) -> None:
        self._cluster_id = self._cluster_id or sight.cluster
        if sight.cluster != self._cluster_id:
            # The client still relies on what it knows of the brokers that were there before.
            raise ConnectionFailed(
                f"Other brokers answer at the same address: those of cluster {sight.cluster}, no longer those of "
                f"{self._cluster_id}."
            )
        for feed in self.feeds:
            feed.end = sight.ends.get(feed.key, feed.end)
        for topic, life in sight.lives.items():
            identities = {feed.identity for feed in self.feeds if feed.topic == topic and feed.writer}
            if isinstance(life, KafkaTopicMissing):
                self._assignment.stop_topic(topic, life)
            elif isinstance(life, Life) and identities - {life.identity}:
                self._assignment.stop_topic(
                    topic, KafkaTopicReplaced(f"The topic {topic!r} was deleted and made anew as {life.identity}.")
                )
        self._assignment.forget_others({topic for topic, life in sight.lives.items() if not isinstance(life, Life)})


def _counted(keys: list[PartitionKey]) -> dict[str, object]:
    return {"topics": len({topic for topic, _ in keys}), "partitions": len(keys)}
