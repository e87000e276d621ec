"""Opens the HTTP ports of the process beside that of operations: those to which some part contributes endpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.ops.health import HEALTHY, Health, HealthRegistry
from frazil.web.hosts import AllowedHosts, BrowserGuard
from frazil.web.ports.contributions import OPERATIONS, BareEndpoint, Contribution, check_contributions
from frazil.web.ports.listeners import Listener, listeners
from frazil.web.ports.operations import probes_of
from frazil.web.ports.port_app import PortApp
from frazil.web.ports.request_metrics import request_metrics
from frazil.web.server import HttpServer

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0


class PortsPart:
    """It starts last and stops first, so that requests come only while all parts work."""

    name = "ports"

    def __init__(
        self,
        config: Config,
        health: HealthRegistry,
        metrics: CollectorRegistry,
        contributions: Callable[[], Iterable[Contribution]],
    ) -> None:
        """`contributions` is called when all parts have started."""
        self._config = config
        self._health = health
        self._metrics = metrics
        self._contributions = contributions
        self._servers: dict[str, HttpServer] = {}
        self._on_stop: list[Callable[[], None]] = []

    async def start(self) -> None:
        contributed = list(self._contributions())
        check_contributions(contributed)
        try:
            for each in listeners(self._config):
                own = [one for one in contributed if one.port == each.port_name]
                self._on_stop += [one.on_stop for one in own if isinstance(one, BareEndpoint) and one.on_stop]
                if own and each.port_name != OPERATIONS:
                    self._servers[each.port_name] = self._server(each, own)
            for name, server in self._servers.items():
                await server.start()
                logger.info("serves an API", extra={"port": name, "url": server.url})
        except BaseException:
            await self.stop()
            raise

    def _server(self, at: Listener, own: list[Contribution]) -> HttpServer:
        given = [*own, *probes_of(at.port_name, self._health, self._metrics)]
        app = PortApp(at.port_name, given, request_metrics(self._metrics))
        hosts = AllowedHosts(self._config.server.allowed_hosts, at.host)
        return HttpServer(
            BrowserGuard(app, hosts, names=False),
            at.host,
            at.port,
            at.section,
            at.tls,
            max_connections=at.max_connections,
            metrics=self._metrics,
        )

    def url(self, port: str) -> str:
        """Returns the address of a named port that is open."""
        return self._servers[port].url

    async def stop(self) -> None:
        for end in self._on_stop:
            end()
        await asyncio.gather(*(server.stop(STOP_SECONDS) for server in self._servers.values()))

    def health(self) -> Health:
        return HEALTHY
