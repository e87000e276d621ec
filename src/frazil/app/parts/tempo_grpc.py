"""Serves Tempo's streaming API over gRPC as a part of the process."""

from __future__ import annotations

import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.ops.health import HEALTHY, Health
from frazil.query.traceql.streaming_server import StreamingServer
from frazil.query.traceql.streaming_service import Room
from frazil.web.connections import connection_metrics

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0


class TempoGrpcPart:
    """It starts after the part that answers queries, and stops before it."""

    name = "tempo grpc"

    def __init__(self, config: Config, metrics: CollectorRegistry, room: Callable[[], Room]) -> None:
        """`room` returns what has queries answered."""
        self._config = config
        self._metrics = metrics
        self._room = room
        self._server: StreamingServer | None = None

    async def start(self) -> None:
        config = self._config
        self._server = StreamingServer(
            config.tempo,
            self._room(),
            connection_metrics(self._metrics),
            several_tenants=config.query.multi_tenant,
        )
        await self._server.start()
        logger.info(
            "streams answers of Tempo's API over gRPC", extra={"host": config.tempo.grpc.host, "port": self.port}
        )

    @property
    def port(self) -> int:
        assert self._server is not None
        return self._server.port

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(STOP_SECONDS)

    def health(self) -> Health:
        return HEALTHY
