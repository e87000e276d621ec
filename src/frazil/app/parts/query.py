"""Answers queries over HTTP as a part of the process: SQL, and the query APIs. Child processes do the work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry

from frazil.app.parts.log import LogPart
from frazil.app.query_apis import QUERY_APIS
from frazil.app.query_endpoints import QueryEndpoints, query_admission
from frazil.config.model import Config
from frazil.engine.room import QueryRoom
from frazil.engine.tail_transfer import Views
from frazil.errors import FrazilError
from frazil.log.tail import TailView
from frazil.ops.health import HEALTHY, Health
from frazil.query.sql.api import SqlApi
from frazil.query.sql.limits import ANSWER, WARM, solo
from frazil.web.ports.contributions import Endpoint

logger = logging.getLogger(__name__)


class QueryPart:
    """`log_part` has the tails that are only in the memory of this process, if it has a log."""

    name = "query"

    def __init__(self, config: Config, metrics: CollectorRegistry, log_part: LogPart | None = None) -> None:
        self._log_part = log_part
        self._room = QueryRoom(config, self._tails, metrics, solo={ANSWER: solo(config)}, warm=[WARM])
        self._api = SqlApi(self._room, metrics)
        self._apis = QueryEndpoints(self._room, query_admission(metrics), several_tenants=config.query.multi_tenant)
        self._warming: asyncio.Task[None] | None = None

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        apis = (endpoint for port, routes in QUERY_APIS.items() for endpoint in self._apis.of(port, routes))
        return [*self._api.endpoints, *apis]

    @property
    def room(self) -> QueryRoom:
        return self._room

    async def start(self) -> None:
        """Return at once. The first query waits for what is not loaded yet."""
        self._warming = asyncio.create_task(self._warm())

    async def stop(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        await self._room.close()

    def health(self) -> Health:
        return HEALTHY

    async def _warm(self) -> None:
        try:
            await self._room.warm()
        except FrazilError as error:
            # A query that comes now fails with the reason; the next one tries again.
            logger.warning("no process for queries could be started", extra={"reason": str(error)})

    def _tails(self, topics: Iterable[str]) -> Views:
        return {topic: self._tails_of(topic) for topic in topics}

    def _tails_of(self, topic: str) -> dict[int, TailView]:
        """Returns the tails of partitions without a WAL.

        Other processes on this machine can read those that have one.
        """
        return {
            writer.partition: writer.tail.view()
            for writer in (self._log_part.log.writers if self._log_part else ())
            if writer.topic == topic and writer.options.ack == "object" and writer.stopped is None
        }
