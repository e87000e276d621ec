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
from frazil.formats.otlp.logs import TOPIC
from frazil.log.arrivals import Arrivals
from frazil.log.tail import TailView
from frazil.ops.health import HEALTHY, Health
from frazil.query.logql.api import warming
from frazil.query.logql.api.tail.endpoint import TailEndpoint
from frazil.query.sql.api import SqlApi
from frazil.query.sql.limits import ANSWER, WARM, solo
from frazil.web.ports.contributions import Contribution

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 1.0


class QueryPart:
    """`log_part` has the tails that are only in the memory of this process, if it has a log."""

    name = "query"

    def __init__(self, config: Config, metrics: CollectorRegistry, log_part: LogPart | None = None) -> None:
        self._config = config
        self._log_part = log_part
        self._room = QueryRoom(config, self._tails, metrics, solo={ANSWER: solo(config)}, warm=[WARM])
        self._api = SqlApi(self._room, metrics)
        self._apis = QueryEndpoints(self._room, query_admission(metrics), several_tenants=config.query.multi_tenant)
        arrivals = Arrivals(TOPIC, config.data_dir, None if log_part is None else lambda: log_part.log)
        self._tail = TailEndpoint(config, self._room, arrivals, metrics)
        self._warming: asyncio.Task[None] | None = None

    @property
    def endpoints(self) -> Sequence[Contribution]:
        apis = (endpoint for port, routes in QUERY_APIS.items() for endpoint in self._apis.of(port, routes))
        return [*self._api.endpoints, *apis, self._tail.contribution]

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
            await self._warm_logql()
        except FrazilError as error:
            # A query that comes now fails with the reason; the next one tries again.
            logger.warning("no process for queries could be started", extra={"reason": str(error)})

    async def _warm_logql(self) -> None:
        """Has a process load what queries in LogQL need, unless it has something better to do."""
        await asyncio.sleep(_SETTLE_SECONDS)
        if self._config.loki.enabled and self._config.query.warm_processes and self._room.is_idle:
            await (await self._room.ask(warming.ANSWER, warming.REQUEST)).aclose()

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
