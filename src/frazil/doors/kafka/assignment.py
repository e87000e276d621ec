"""Opens the partitions that are assigned to this process, gives them up, and opens them again after trouble.

Whatever happens to a partition (it is fenced, its store is away, its offsets are gone) has the same cure: its
writer is closed, and the partition is opened again from what the log says. Trouble that does not pass by itself stops
the topic, which is all its partitions in this process, until a person has done something about it. Others go on.
"""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from frazil.backoff import Backoff
from frazil.doors.kafka.client import Client
from frazil.doors.kafka.cluster import PartitionKey
from frazil.doors.kafka.feed import NOTHING, Feed
from frazil.doors.kafka.metrics import KafkaMetrics
from frazil.doors.kafka.opening import Opened, Opener
from frazil.errors import FrazilError, PartitionFenced
from frazil.log.log import Log
from frazil.log.writer.writer import PartitionWriter

logger = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 2.0
"""A topic that is stopped is tried again so often: somebody may have decided, or granted a permission."""
CALM_SECONDS = 30.0
"""After so long without a failure, the next one counts as the first."""
TOPICS_AT_ONCE = 4
PARTITIONS_AT_ONCE = 8


ShouldSeal = Callable[[], bool]
"""Tells whether a writer seals what it holds before it is closed. It is called on a thread that may wait."""


def _always() -> bool:
    return True


def _never() -> bool:
    return False


@dataclass
class _TopicState:
    problem: FrazilError | None = None
    """Says why not all of its partitions are read."""
    said: str = ""
    failures: int = 0
    failed_at: float = float("-inf")
    not_before: float = 0.0
    """Its partitions are not opened before this moment."""
    opening: bool = False


class _OpeningResult(NamedTuple):
    """Says which partitions of a topic were opened, and what went wrong."""

    topic: str
    feeds: list[Feed]
    opened: dict[Feed, Opened]
    problem: FrazilError | None


@dataclass
class _Executors:
    topics: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(TOPICS_AT_ONCE, "kafka-topic"))
    partitions: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(PARTITIONS_AT_ONCE, "kafka-partition")
    )


class Assignment:
    """Only the consumer's thread may use it, except for `feeds` and `problems`, which any thread may read."""

    def __init__(self, client: Client, log: Log, opener: Opener, backoff: Backoff, metrics: KafkaMetrics) -> None:
        self._client = client
        self._log = log
        self._opener = opener
        self._backoff = backoff
        self._metrics = metrics
        self._rng = random.Random()
        self._feeds: dict[PartitionKey, Feed] = {}
        self._topics: defaultdict[str, _TopicState] = defaultdict(_TopicState)
        self._closing: dict[PartitionKey, Future[None]] = {}
        self._results: SimpleQueue[_OpeningResult] = SimpleQueue()
        self._threads = _Executors()

    @property
    def feeds(self) -> list[Feed]:
        return list(self._feeds.copy().values())

    def running(self, key: PartitionKey) -> Feed | None:
        """Return the partition if it is assigned and being read."""
        feed = self._feeds.get(key)
        return feed if feed and feed.writer else None

    def problems(self) -> dict[str, FrazilError]:
        """Return the topics that are not read, or only in part, each with the reason."""
        return {name: topic.problem for name, topic in self._topics.copy().items() if topic.problem}

    # --- assigned and given up --------------------------------------------------------------------------------

    def add(self, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            self._feeds[key] = Feed(*key)

    def drop(self, keys: Iterable[PartitionKey]) -> None:
        """Drop partitions that have other owners already, who read again what is not sealed, if they can."""
        for key in keys:
            if feed := self._feeds.pop(key, None):
                self._stop_feed(feed, partial(self._opener.is_gone, feed.topic))

    def give_up(self, keys: Iterable[PartitionKey], seconds: float) -> None:
        """Seal what the partitions hold, as far as the time allows, commit their offsets, and close them."""
        given = [feed for key in keys if (feed := self._feeds.pop(key, None))]
        closings = [closing for feed in given if (closing := self._stop_feed(feed, _always))]
        _, unfinished = wait(closings, seconds)
        if unfinished:
            logger.warning("partitions were given up before all was sealed", extra={"partitions": len(unfinished)})
        self.commit(given)

    def commit(self, feeds: Iterable[Feed]) -> None:
        """Commit the offsets of what was sealed since the last commit."""
        offsets: dict[PartitionKey, int] = {}
        for feed in feeds:
            feed.collect()
            if feed.stored > feed.committed:
                offsets[feed.key] = feed.committed = feed.stored
        if offsets:
            self._client.commit(offsets)

    def commit_again(self, keys: Iterable[PartitionKey]) -> None:
        """Commit the offsets of these partitions again the next time, for the group does not know them."""
        for key in keys:
            if feed := self._feeds.get(key):
                feed.committed = NOTHING

    def close(self) -> None:
        """Close all partitions without sealing them. This waits for partitions that are being opened."""
        self.drop(list(self._feeds))
        self._threads.topics.shutdown(wait=True)
        while not self._results.empty():
            for feed, opened in self._results.get().opened.items():
                self._close_in_background(feed.key, opened.writer)
        self._threads.partitions.shutdown(wait=True)

    # --- trouble -------------------------------------------------------------------------------------------

    def stop_topic(self, name: str, problem: FrazilError) -> None:
        """Stop reading all partitions of the topic until the problem is gone."""
        feeds = [feed for feed in self._feeds.values() if feed.topic == name]
        self._stop_reading(feeds)
        self._record_problem(name, problem, LOOK_AGAIN_SECONDS)

    def read(self, feed: Feed) -> None:
        """Let the client read the partition from its next offset on."""
        feed.sought()
        try:
            self._client.read_from(feed.key, feed.next)
        except FrazilError as error:
            self.reopen(feed, error)

    def reopen(self, feed: Feed, problem: FrazilError) -> None:
        """Close one partition, and open it again after a while."""
        if isinstance(problem, PartitionFenced):
            self._metrics.fenced.labels(feed.topic).inc()
        self._stop_reading([feed])
        topic = self._topics[feed.topic]
        calm = time.monotonic() - topic.failed_at > CALM_SECONDS
        self._record_problem(feed.topic, problem, self._backoff.delay(0 if calm else topic.failures, self._rng))

    def works(self, name: str) -> None:
        """Note that a partition of the topic was read. Its trouble is over when all its partitions are read."""
        topic = self._topics[name]
        if topic.problem and all(feed.writer for feed in self._feeds.values() if feed.topic == name):
            logger.info("a topic is read again", extra={"topic": name})
            topic.problem, topic.said = None, ""

    def forget_others(self, missing: Collection[str]) -> None:
        """Forget the problems of topics that exist and have no partition in this process any more."""
        here = {feed.topic for feed in self._feeds.values()}
        for name, topic in self._topics.items():
            if topic.problem and name not in here and name not in missing:
                topic.problem, topic.said = None, ""

    def _stop_reading(self, feeds: Collection[Feed]) -> None:
        held = [feed for feed in feeds if feed.writer]
        if held:
            self._client.pause([feed.key for feed in held])
        for feed in held:
            self._stop_feed(feed, _always)

    def _record_problem(self, name: str, problem: FrazilError, delay: float) -> None:
        topic = self._topics[name]
        now = time.monotonic()
        topic.failures = 1 if now - topic.failed_at > CALM_SECONDS else topic.failures + 1
        topic.failed_at = now
        topic.not_before = now + delay
        topic.problem = problem
        self._metrics.errors.count(problem)
        if str(problem) != topic.said:
            topic.said = str(problem)
            level = logging.INFO if isinstance(problem, PartitionFenced) else logging.WARNING
            event = "a topic has trouble" if problem.retryable else "a topic is stopped"
            logger.log(level, event, extra={"topic": name, "reason": str(problem)})

    def _stop_feed(self, feed: Feed, sealing: ShouldSeal) -> Future[None] | None:
        writer = feed.stop()
        return self._close_in_background(feed.key, writer, sealing) if writer else None

    def _close_in_background(
        self, key: PartitionKey, writer: PartitionWriter, sealing: ShouldSeal = _never
    ) -> Future[None]:
        closing = self._threads.partitions.submit(_close_writer, self._log, writer, sealing)
        self._closing[key] = closing
        return closing

    # --- opening -------------------------------------------------------------------------------------------

    def tend(self) -> None:
        """Start reading partitions that were opened meanwhile, and open those that are due."""
        try:
            while True:
                self._apply_result(self._results.get_nowait())
        except Empty:
            pass
        now = time.monotonic()
        due: defaultdict[str, list[Feed]] = defaultdict(list)
        for feed in self._feeds.values():
            if feed.writer is None and not feed.opening:
                due[feed.topic].append(feed)
        for name, feeds in due.items():
            topic = self._topics[name]
            if not topic.opening and topic.not_before <= now:
                self._start_opening(name, topic, feeds)

    def _start_opening(self, name: str, topic: _TopicState, feeds: list[Feed]) -> None:
        topic.opening = True
        closings = []
        for feed in feeds:
            feed.opening = True
            if closing := self._closing.pop(feed.key, None):
                closings.append(closing)
        self._threads.topics.submit(self._open, name, feeds, closings)

    def _open(self, name: str, feeds: list[Feed], closings: list[Future[None]]) -> None:
        """Open partitions of one topic. This runs on a thread of its own."""
        opened: dict[Feed, Opened] = {}
        problems: list[FrazilError] = []
        try:
            # The log would return our old writer of a partition, if that is not closed yet.
            wait(closings)
            life = self._opener.life(name)
            futures = {
                feed: self._threads.partitions.submit(self._opener.open, name, feed.partition, life) for feed in feeds
            }
            for feed, future in futures.items():
                try:
                    opened[feed] = future.result()
                except Exception as error:  # noqa: BLE001 - the others must be heard of too
                    problems.append(_translated(name, error))
        except Exception as error:  # noqa: BLE001 - it is told to the consumer's thread
            problems.append(_translated(name, error))
        # The problem that a person has to solve is reported first.
        problem = min(problems, key=lambda each: each.retryable, default=None)
        self._results.put(_OpeningResult(name, feeds, opened, problem))

    def _apply_result(self, result: _OpeningResult) -> None:
        topic = self._topics[result.topic]
        topic.opening = False
        for feed in result.feeds:
            feed.opening = False
        problem = result.problem
        if problem and not problem.retryable:
            for feed, opened in result.opened.items():
                self._close_in_background(feed.key, opened.writer)
            self.stop_topic(result.topic, problem)
            return
        for feed, opened in result.opened.items():
            self._start(feed, opened)
        if problem:
            self._record_problem(result.topic, problem, self._backoff.delay(topic.failures, self._rng))

    def _start(self, feed: Feed, opened: Opened) -> None:
        if self._feeds.get(feed.key) is not feed:
            self._close_in_background(feed.key, opened.writer)
            return
        feed.start(opened)
        logger.info(
            "reading a partition",
            extra={"topic": feed.topic, "partition": feed.partition, "kafka_offset": feed.next},
        )
        self.read(feed)


def _translated(topic: str, error: Exception) -> FrazilError:
    if isinstance(error, FrazilError):
        return error
    logger.error("opening partitions failed", extra={"topic": topic}, exc_info=error)
    return FrazilError(f"opening partitions of {topic} failed: {type(error).__name__}: {error}")


def _close_writer(log: Log, writer: PartitionWriter, sealing: ShouldSeal) -> None:
    """Close a writer. Records that it could not seal are still in Kafka."""
    where = {"topic": writer.topic, "partition": writer.partition}
    try:
        if sealing():
            writer.drain()
            writer.seal_all()
    except FrazilError as error:
        logger.info("records are left to be read again", extra={**where, "reason": str(error)})
    finally:
        try:
            log.release(writer)
        except FrazilError as error:
            logger.warning("a writer could not be closed", extra={**where, "reason": str(error)})
