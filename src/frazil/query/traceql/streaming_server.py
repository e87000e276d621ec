"""Serves Tempo's streaming API over gRPC.

It has a port of its own, because the server of HTTP sends no trailers, which gRPC needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from frazil.config.sections.tempo import TempoConfig
from frazil.query.traceql.api.streaming import SERVICE
from frazil.query.traceql.streaming_service import Room, StreamingService
from frazil.scan.tenants import tenant_names
from frazil.web.connections import ConnectionMetrics, Connections
from frazil.web.grpc.port import connection_options, open_port

MOST_MESSAGE_BYTES = 256 * 1024
"""The largest message of a call: twice the text of a query, which is its longest part."""
MOST_RUNNING = 500
"""The most calls at a time, so that their messages take little memory; more are refused as RESOURCE_EXHAUSTED."""


class StreamingServer:
    def __init__(
        self, config: TempoConfig, room: Room, connections: ConnectionMetrics, *, several_tenants: bool
    ) -> None:
        """Listens at once. `several_tenants` says whether one query may read the rows of several tenants."""

        def tenants_of(values: Sequence[str]) -> tuple[str, ...]:
            return tenant_names(values, several=several_tenants)

        at = config.grpc
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
                *connection_options(at.max_connections),
            ],
            maximum_concurrent_rpcs=MOST_RUNNING,
        )
        self._server.add_generic_rpc_handlers([StreamingService(room, tenants_of)])
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.port = open_port(
            self._server, at.host, at.port, config.tls, section="tempo", port_key="tempo.grpc.port", rival="Tempo"
        )
        self._connections = Connections(self.port, at.max_connections, "tempo.grpc", connections, closes=False)

    async def start(self) -> None:
        await self._server.start()
        self._connections.start()
        for service in ("", SERVICE):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, timeout: float) -> None:
        """Accepts nothing more, and lets running calls end."""
        self._connections.stop()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(timeout)
