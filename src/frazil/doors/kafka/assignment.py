"""The partitions that are assigned to this process: opened, given up, and opened again after trouble.

Whatever happens to a partition (it is fenced, its store is away, its offsets are gone) has the same cure: let go of
its writer, and open it anew from what the log says. Trouble that does not pass by itself stops the topic, all its
partitions here, until a person has done something about it; the others go on.
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
"""How often a topic that is stopped is looked at: whether somebody has decided, or given a right."""
CALM_SECONDS = 30.0
"""Trouble after so long a time without is the first of its kind, not one more."""
TOPICS_AT_ONCE = 4
PARTITIONS_AT_ONCE = 8


Sealing = Callable[[], bool]
"""Whether what a writer holds is sealed before it is let go of; asked on a thread that may wait."""


def _always() -> bool:
    return True


def _never() -> bool:
    return False


@dataclass
class _Topic:
    problem: FrazilError | None = None
    """Why not all of its partitions are read."""
    said: str = ""
    failures: int = 0
    failed_at: float = float("-inf")
    not_before: float = 0.0
    """When its partitions are opened next."""
    opening: bool = False


class _Result(NamedTuple):
    """What came of opening partitions of one topic."""

    topic: str
    feeds: list[Feed]
    opened: dict[Feed, Opened]
    problem: FrazilError | None


@dataclass
class _Threads:
    topics: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(TOPICS_AT_ONCE, "kafka-topic"))
    partitions: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(PARTITIONS_AT_ONCE, "kafka-partition")
    )


class Assignment:
    """Belongs to the consumer's thread, but for `feeds` and `problems`, which anybody may look at."""

    def __init__(self, client: Client, log: Log, opener: Opener, backoff: Backoff, metrics: KafkaMetrics) -> None:
        self._client = client
        self._log = log
        self._opener = opener
        self._backoff = backoff
        self._metrics = metrics
        self._rng = random.Random()
        self._feeds: dict[PartitionKey, Feed] = {}
        self._topics: defaultdict[str, _Topic] = defaultdict(_Topic)
        self._closing: dict[PartitionKey, Future[None]] = {}
        self._results: SimpleQueue[_Result] = SimpleQueue()
        self._threads = _Threads()

    @property
    def feeds(self) -> list[Feed]:
        return list(self._feeds.copy().values())

    def running(self, key: PartitionKey) -> Feed | None:
        """The partition if it is assigned and read."""
        feed = self._feeds.get(key)
        return feed if feed and feed.writer else None

    def problems(self) -> dict[str, FrazilError]:
        """Topics that are not read, or not wholly, and why."""
        return {name: topic.problem for name, topic in self._topics.copy().items() if topic.problem}

    # --- coming and going ----------------------------------------------------------------------------------

    def add(self, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            self._feeds[key] = Feed(*key)

    def drop(self, keys: Iterable[PartitionKey]) -> None:
        """These are somebody else's already: what is not sealed is theirs to read again, if anybody still can."""
        for key in keys:
            if feed := self._feeds.pop(key, None):
                self._close(feed, partial(self._opener.is_gone, feed.topic))

    def give_up(self, keys: Iterable[PartitionKey], seconds: float) -> None:
        """Seal what there is, in the time there is, tell the group, and let go."""
        given = [feed for key in keys if (feed := self._feeds.pop(key, None))]
        closings = [closing for feed in given if (closing := self._close(feed, _always))]
        _, unfinished = wait(closings, seconds)
        if unfinished:
            logger.warning("partitions were given up before all was sealed", extra={"partitions": len(unfinished)})
        self.commit(given)

    def commit(self, feeds: Iterable[Feed]) -> None:
        """Tell the group what has become sealed since it was told last."""
        offsets: dict[PartitionKey, int] = {}
        for feed in feeds:
            feed.collect()
            if feed.stored > feed.committed:
                offsets[feed.key] = feed.committed = feed.stored
        if offsets:
            self._client.commit(offsets)

    def commit_again(self, keys: Iterable[PartitionKey]) -> None:
        """The group has not heard of these; it is told the next time."""
        for key in keys:
            if feed := self._feeds.get(key):
                feed.committed = NOTHING

    def close(self) -> None:
        """Let go of everything, without sealing. Waits for what is being opened."""
        self.drop(list(self._feeds))
        self._threads.topics.shutdown(wait=True)
        while not self._results.empty():
            for feed, opened in self._results.get().opened.items():
                self._release(feed.key, opened.writer)
        self._threads.partitions.shutdown(wait=True)

    # --- trouble -------------------------------------------------------------------------------------------

    def stop_topic(self, name: str, problem: FrazilError) -> None:
        """Read none of its partitions until what is in the way is gone."""
        feeds = [feed for feed in self._feeds.values() if feed.topic == name]
        self._let_go(feeds)
        self._note(name, problem, LOOK_AGAIN_SECONDS)

    def read(self, feed: Feed) -> None:
        """Let the client hand out the partition from the offset on that comes next."""
        feed.sought()
        try:
            self._client.read_from(feed.key, feed.next)
        except FrazilError as error:
            self.reopen(feed, error)

    def reopen(self, feed: Feed, problem: FrazilError) -> None:
        """Let go of one partition and open it anew after a while."""
        if isinstance(problem, PartitionFenced):
            self._metrics.fenced.labels(feed.topic).inc()
        self._let_go([feed])
        topic = self._topics[feed.topic]
        calm = time.monotonic() - topic.failed_at > CALM_SECONDS
        self._note(feed.topic, problem, self._backoff.delay(0 if calm else topic.failures, self._rng))

    def works(self, name: str) -> None:
        """Something was read of the topic: if that goes for all its partitions here, its trouble is over."""
        topic = self._topics[name]
        if topic.problem and all(feed.writer for feed in self._feeds.values() if feed.topic == name):
            logger.info("a topic is read again", extra={"topic": name})
            topic.problem, topic.said = None, ""

    def forget_others(self, missing: Collection[str]) -> None:
        """Topics that are not missing and have no partition here are no trouble of this process any more."""
        here = {feed.topic for feed in self._feeds.values()}
        for name, topic in self._topics.items():
            if topic.problem and name not in here and name not in missing:
                topic.problem, topic.said = None, ""

    def _let_go(self, feeds: Collection[Feed]) -> None:
        held = [feed for feed in feeds if feed.writer]
        if held:
            self._client.pause([feed.key for feed in held])
        for feed in held:
            self._close(feed, _always)

    def _note(self, name: str, problem: FrazilError, delay: float) -> None:
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

    def _close(self, feed: Feed, sealing: Sealing) -> Future[None] | None:
        writer = feed.stop()
        return self._release(feed.key, writer, sealing) if writer else None

    def _release(self, key: PartitionKey, writer: PartitionWriter, sealing: Sealing = _never) -> Future[None]:
        closing = self._threads.partitions.submit(_finish, self._log, writer, sealing)
        self._closing[key] = closing
        return closing

    # --- opening -------------------------------------------------------------------------------------------

    def tend(self) -> None:
        """Take up what was opened meanwhile, and open what is due."""
        try:
            while True:
                self._settle(self._results.get_nowait())
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
                self._begin(name, topic, feeds)

    def _begin(self, name: str, topic: _Topic, feeds: list[Feed]) -> None:
        topic.opening = True
        closings = []
        for feed in feeds:
            feed.opening = True
            if closing := self._closing.pop(feed.key, None):
                closings.append(closing)
        self._threads.topics.submit(self._open, name, feeds, closings)

    def _open(self, name: str, feeds: list[Feed], closings: list[Future[None]]) -> None:
        """On a thread of its own."""
        opened: dict[Feed, Opened] = {}
        problems: list[FrazilError] = []
        try:
            # A writer of ours that is not gone yet would be found instead of a new one.
            wait(closings)
            life = self._opener.life(name)
            futures = {
                feed: self._threads.partitions.submit(self._opener.open, name, feed.partition, life) for feed in feeds
            }
            for feed, future in futures.items():
                try:
                    opened[feed] = future.result()
                except Exception as error:  # noqa: BLE001 - the others must be heard of too
                    problems.append(_as_ours(name, error))
        except Exception as error:  # noqa: BLE001 - it is told to the consumer's thread
            problems.append(_as_ours(name, error))
        # What a person must do something about is told first.
        problem = min(problems, key=lambda each: each.retryable, default=None)
        self._results.put(_Result(name, feeds, opened, problem))

    def _settle(self, result: _Result) -> None:
        topic = self._topics[result.topic]
        topic.opening = False
        for feed in result.feeds:
            feed.opening = False
        problem = result.problem
        if problem and not problem.retryable:
            for feed, opened in result.opened.items():
                self._release(feed.key, opened.writer)
            self.stop_topic(result.topic, problem)
            return
        for feed, opened in result.opened.items():
            self._start(feed, opened)
        if problem:
            self._note(result.topic, problem, self._backoff.delay(topic.failures, self._rng))

    def _start(self, feed: Feed, opened: Opened) -> None:
        if self._feeds.get(feed.key) is not feed:
            self._release(feed.key, opened.writer)
            return
        feed.start(opened)
        logger.info(
            "reading a partition",
            extra={"topic": feed.topic, "partition": feed.partition, "kafka_offset": feed.next},
        )
        self.read(feed)


def _as_ours(topic: str, error: Exception) -> FrazilError:
    if isinstance(error, FrazilError):
        return error
    logger.error("opening partitions failed", extra={"topic": topic}, exc_info=error)
    return FrazilError(f"opening partitions of {topic} failed: {type(error).__name__}: {error}")


def _finish(log: Log, writer: PartitionWriter, sealing: Sealing) -> None:
    """Let go of a writer; what it could not seal is still in Kafka."""
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
