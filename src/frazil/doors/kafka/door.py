"""The Kafka door has one thread, which takes messages of many topics from Kafka and appends them to the log."""

from __future__ import annotations

import logging
import random
import threading
import time

from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.doors.kafka.cluster import Cluster
from frazil.doors.kafka.feed import Feed
from frazil.doors.kafka.metrics import FeedCollector, KafkaMetrics
from frazil.doors.kafka.session import Session
from frazil.doors.kafka.settings import check_settings
from frazil.errors import FrazilError
from frazil.log.log import Log
from frazil.ops.health import Health
from frazil.ops.retry import backoff_of

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
SEALING = 0.6
"""Sealing may take this part of the time of a clean stop. The rest is for leaving the group, and for other parts."""
STEADY_SECONDS = 60.0
"""When a session lasted this long, its end counts as the first failure, not as one more."""


class KafkaDoor:
    """Start it once and stop it once. Any thread may call `health` and `feeds`."""

    def __init__(self, config: Config, log: Log, registry: CollectorRegistry) -> None:
        """Raises `ConfigError` when the settings cannot work."""
        check_settings(config)
        self._config = config
        self._log = log
        self._metrics = KafkaMetrics(registry)
        self._cluster = Cluster(config.kafka, ANSWER_SECONDS)
        self._session = self._join()
        self._problem: FrazilError | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-consumer", daemon=True)
        registry.register(FeedCollector(lambda: self.feeds))

    def _join(self) -> Session:
        return Session(self._config, self._log, self._cluster, self._metrics)

    @property
    def feeds(self) -> list[Feed]:
        """Return the partitions that are assigned to this process."""
        return self._session.feeds

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Seal what was consumed, as far as the time allows, and leave the group."""
        self._stopping.set()
        self._thread.join()

    def health(self) -> Health:
        if not self._thread.is_alive() and not self._stopping.is_set():
            return Health("unhealthy", "the consumer's thread has ended")
        problems: dict[str, FrazilError] = dict(self._session.problems())
        if self._problem:
            problems["consumer"] = self._problem
        return Health.of(problems)

    def _run(self) -> None:
        backoff, rng, failures = backoff_of(self._config.kafka.retry), random.Random(), 0
        while True:
            began = time.monotonic()
            try:
                self._session.run(self._stopping, SEALING * self._config.server.shutdown_timeout_seconds)
                return
            except FrazilError as error:
                problem = error
            except Exception as error:
                logger.exception("consuming failed")
                problem = FrazilError(f"consuming failed: {type(error).__name__}: {error}")
            self._metrics.errors.count(problem)
            failures = 0 if time.monotonic() - began > STEADY_SECONDS else failures + 1
            pause = backoff.delay(failures, rng)
            logger.error(
                "consuming ended; it begins anew", extra={"reason": str(problem), "seconds": round(pause, 1)}
            )
            self._problem = problem
            if self._stopping.wait(pause):
                return
            self._session = self._join()
            self._problem = None
