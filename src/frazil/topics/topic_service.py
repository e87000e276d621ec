"""Combines topics with their subscriptions, for a running Frazil or for a program that opens a data folder."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

from frazil.config.load import load_config
from frazil.config.model import Config
from frazil.lake.catalog.lake import Lake
from frazil.log.log import Log
from frazil.topics.dead_letter_settings import check_dead_letter_topics
from frazil.topics.interface import DeletedTopic, SubscriptionStats
from frazil.topics.read.starts import LATEST, Start
from frazil.topics.storage import TopicStorage
from frazil.topics.subscription_manager import SubscriptionManager
from frazil.topics.subscriptions.options import Kind
from frazil.topics.subscriptions.subscription import Subscription


class Topics(TopicStorage):
    """Belongs to one event loop. `log` and `lake` belong to the caller and stay open."""

    def __init__(self, log: Log, lake: Lake | None = None) -> None:
        super().__init__(log, lake, subscriptions=self._lags)
        self.log = log
        self.subscriptions = SubscriptionManager(self, log, f"{socket.gethostname()}/{os.getpid()}")

    async def _lags(self, topic: str) -> Mapping[str, SubscriptionStats]:
        return await self.subscriptions.stats(topic)

    async def subscribe(
        self, topic: str, subscription: str, kind: Kind = Kind.EXCLUSIVE, start: Start = LATEST
    ) -> Subscription:
        """Opens a durable subscription, which consumers `join`. `start` is for one that is created."""
        return await self.subscriptions.subscribe(topic, subscription, kind, start)

    async def delete_topic(self, topic: str, *, drop_table: bool) -> DeletedTopic:
        deleted = await super().delete_topic(topic, drop_table=drop_table)
        await self.subscriptions.topic_deleted(topic)
        return deleted

    async def shutdown(self) -> None:
        try:
            await self.subscriptions.close()
        finally:
            await super().shutdown()


@asynccontextmanager
async def open_topics(config: Config | str | Path | None = None) -> AsyncIterator[Topics]:
    """Opens the topics of a data folder that no other process writes to, and seals what was stored at the end.

    Settings are found as the command line finds them: in `config` or `frazil.yaml`, and in the environment.
    """
    settings = config if isinstance(config, Config) else load_config(Path(config) if config else None).config
    check_dead_letter_topics(settings)
    log = await asyncio.to_thread(Log, settings)
    try:
        with closing(Lake(settings)) as lake:
            topics = Topics(log, lake)
            try:
                yield topics
            finally:
                await topics.shutdown()
    finally:
        await asyncio.to_thread(log.close)
