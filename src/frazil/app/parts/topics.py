"""Runs topics of messages as a part of the process: storage, subscriptions, HTTP and Danube's protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.doors.danube.consumers import Consumers
from frazil.doors.danube.discovery import Discovery
from frazil.doors.danube.producers import Producers
from frazil.doors.danube.server import DanubeServer
from frazil.doors.http.subscriptions_api import SubscriptionsApi
from frazil.doors.http.topics_api import TopicsApi
from frazil.errors import ShutdownError
from frazil.lake.catalog.lake import Lake
from frazil.log.log import Log
from frazil.ops.health import Health
from frazil.topics.dead_letter_settings import check_dead_letter_topics
from frazil.topics.metrics import ReadersCollector, SubscriptionsCollector
from frazil.topics.topic_service import Topics
from frazil.web.connections import connection_metrics
from frazil.web.ports.contributions import Endpoint

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0


class TopicsPart:
    name = "topics"

    def __init__(self, config: Config, metrics: CollectorRegistry, log: Callable[[], Log]) -> None:
        """`log` returns the log of this process, which starts before this part."""
        self._config = config
        self._log = log
        self._lake: Lake | None = None
        self._opened: Topics | None = None
        self._danube: DanubeServer | None = None
        self._api = TopicsApi(config, self._topics)
        self._subscribing = SubscriptionsApi(self._topics)
        self._running: Topics | None = None
        self._metrics = metrics

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        return [*self._api.endpoints, *self._subscribing.endpoints]

    def _topics(self) -> Topics:
        if self._running is None:
            raise ShutdownError("Topics are not running yet, or not any more. Try again later.")
        return self._running

    async def start(self) -> None:
        check_dead_letter_topics(self._config)
        log = self._log()
        self._lake = Lake(self._config)
        topics = self._opened = Topics(log, self._lake)
        if self._config.danube.enabled:
            danube = self._danube = DanubeServer(self._config.danube, connection_metrics(self._metrics))
            monotonic = log.world.clock.monotonic
            await danube.start(
                Discovery(topics, danube.url),
                Producers(topics, monotonic),
                Consumers(topics, topics.subscriptions, log.store, danube.url, monotonic),
            )
            logger.info("serves Danube's clients", extra={"url": danube.url})
        self._metrics.register(SubscriptionsCollector(log, topics.subscriptions))
        self._metrics.register(ReadersCollector(topics))
        self._running = topics

    @property
    def danube_port(self) -> int:
        assert self._danube is not None
        return self._danube.port

    async def stop(self) -> None:
        self._running = None
        self._api.close()
        self._subscribing.close()
        try:
            if self._danube is not None:
                await self._danube.stop(STOP_SECONDS)
            if self._opened is not None:
                await self._opened.shutdown()
        finally:
            if self._lake is not None:
                self._lake.close()

    def health(self) -> Health:
        problem = None if self._opened is None else self._opened.subscriptions.problem
        return Health.of({} if problem is None else {"subscriptions": problem})
