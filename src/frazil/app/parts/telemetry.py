"""Runs the doors for telemetry as a part of the process: OTLP, and the APIs of Loki and Prometheus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from frazil.config.model import Config
from frazil.config.sections.endpoint import EndpointConfig, TlsConfig
from frazil.config.sections.loki import LokiConfig
from frazil.config.sections.prometheus import PrometheusConfig
from frazil.config.sections.section import MIB
from frazil.doors.loki.http import LokiDialect
from frazil.doors.loki.push import PATH as LOKI_PUSH
from frazil.doors.loki.push import PUSH
from frazil.doors.otlp.http import OtlpDialect
from frazil.doors.otlp.rpc import OtlpGrpc
from frazil.doors.otlp.signals import LOGS, METRICS, SIGNALS, Signal
from frazil.doors.prometheus import remote_write
from frazil.doors.telemetry.conversion import RequestConverter
from frazil.doors.telemetry.http import EndpointContext, TelemetryEndpoint
from frazil.doors.telemetry.intake import Intake
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.request_kind import RequestKind
from frazil.doors.telemetry.routing import EndpointRouter, Handler
from frazil.doors.telemetry.tenant_limits import TenantLimits
from frazil.doors.telemetry.unstored_rows import UnstoredRows
from frazil.doors.telemetry.writers import Writers
from frazil.log.log import Log
from frazil.ops.health import Health
from frazil.web.admission import Admission
from frazil.web.connections import connection_metrics
from frazil.web.hosts import AllowedHosts, BrowserGuard
from frazil.web.listen_settings import check_settings
from frazil.web.server import HttpServer

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0

HttpListener = EndpointConfig | LokiConfig | PrometheusConfig
"""These sections say where an API over HTTP listens."""


class TelemetryPart:
    name = "telemetry"

    def __init__(self, config: Config, metrics: CollectorRegistry, log: Callable[[], Log]) -> None:
        """`log` returns the log of this process, which starts before this part."""
        self._config = config
        self._registry = metrics
        self._metrics = TelemetryMetrics(metrics)
        self._log = log
        self._writers: Writers | None = None
        self._servers: dict[str, HttpServer] = {}
        self._grpc: OtlpGrpc | None = None

    async def start(self) -> None:
        config = self._config
        check_settings(config)
        log = self._log()
        clock = log.world.clock
        writers = self._writers = Writers(log)
        limits = TenantLimits(config.telemetry, clock.monotonic)
        most, most_append = config.telemetry.max_body_mb * MIB, config.log.max_append_mb * MIB
        admission = Admission(config.telemetry.max_in_flight_mb * MIB, self._metrics.in_flight)
        context = EndpointContext(admission, self._metrics, most)
        unstored = UnstoredRows(config.telemetry.max_in_flight_mb * MIB)

        def intake(kind: RequestKind) -> Intake:
            converter = RequestConverter(kind, config.telemetry, limits, self._metrics, clock, most_append)
            return Intake(kind, converter, writers, self._metrics, unstored)

        signals = {signal: intake(signal.requests) for signal in SIGNALS}

        def otlp(signal: Signal) -> TelemetryEndpoint:
            return TelemetryEndpoint(signals[signal], OtlpDialect(signal), context)

        if config.otlp.enabled:
            paths = {signal.path: otlp(signal) for signal in SIGNALS}
            port = EndpointRouter(paths, _other_routes(paths, "/health"))
            self._servers["otlp"] = self._server(port, config.otlp.http, "otlp.http", config.otlp.tls)
            connections = connection_metrics(self._registry)
            self._grpc = OtlpGrpc(config.otlp, signals, admission, self._metrics, connections, most)
            await self._grpc.start()
        if config.loki.enabled:
            push = TelemetryEndpoint(intake(PUSH), LokiDialect(), context)
            paths = {LOKI_PUSH: push, "/otlp/v1/logs": otlp(LOGS)}
            app = EndpointRouter(paths, _other_routes(paths, "/ready"))
            self._servers["loki"] = self._server(app, config.loki, "loki", config.loki.tls)
        if config.prometheus.enabled:
            written = remote_write.RemoteWrite(
                TelemetryEndpoint(intake(remote_write.requests()), remote_write.RemoteWriteDialect(), context),
                TelemetryEndpoint(intake(remote_write.REQUESTS_V2), remote_write.RemoteWriteV2Dialect(), context),
            )
            both: dict[str, Handler] = {"/api/v1/otlp/v1/metrics": otlp(METRICS), remote_write.PATH: written}
            app = EndpointRouter(both, _other_routes(both, "/-/ready", "/-/healthy"))
            self._servers["prometheus"] = self._server(app, config.prometheus, "prometheus", config.prometheus.tls)
        for api, server in self._servers.items():
            await server.start()
            logger.info("takes telemetry", extra={"api": api, "url": server.url})
        if self._grpc is not None:
            logger.info("takes OTLP over gRPC", extra={"host": config.otlp.grpc.host, "port": self.grpc_port})

    def _server(self, app: ASGIApp, at: HttpListener, section: str, tls: TlsConfig) -> HttpServer:
        hosts = AllowedHosts(self._config.server.allowed_hosts, at.host)
        return HttpServer(
            BrowserGuard(app, hosts, names=False),
            at.host,
            at.port,
            section,
            tls,
            max_connections=at.max_connections,
            metrics=self._registry,
        )

    def url(self, api: str) -> str:
        """Returns the address of an API over HTTP: `otlp`, `loki` or `prometheus`."""
        return self._servers[api].url

    @property
    def grpc_port(self) -> int:
        assert self._grpc is not None
        return self._grpc.port

    async def stop(self) -> None:
        stopping = [server.stop(STOP_SECONDS) for server in self._servers.values()]
        if self._grpc is not None:
            stopping.append(self._grpc.stop(STOP_SECONDS))
        await asyncio.gather(*stopping)

    def health(self) -> Health:
        assert self._writers is not None
        return Health.of(self._writers.problems())


def _other_routes(endpoints: Iterable[str], *alive: str) -> Starlette:
    """Returns the routes for everything but `POST` to the endpoints.

    Clients ask at `alive` whether the server runs.
    """
    asked = [Route(path, _alive) for path in alive]
    return Starlette(routes=[*asked, *(Route(path, _not_found, methods=["POST"]) for path in endpoints)])


async def _alive(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _not_found(_: Request) -> Response:
    return PlainTextResponse("Not Found", 404)
