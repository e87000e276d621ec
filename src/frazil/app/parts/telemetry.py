"""Runs the doors for telemetry as a part of the process: OTLP, and the APIs of Loki and Prometheus.

They contribute their endpoints over HTTP to the ports of these names. The port of gRPC is their own: its server is a
library with threads, flow control and connections of its own, which takes services and no routes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.doors.loki.http import LokiDialect
from frazil.doors.loki.push import PATH as LOKI_PUSH
from frazil.doors.loki.push import PUSH
from frazil.doors.otlp.http import OtlpDialect
from frazil.doors.otlp.rpc import OtlpGrpc
from frazil.doors.otlp.signals import LOGS, METRICS, SIGNALS, Signal
from frazil.doors.prometheus import remote_write
from frazil.doors.telemetry.asgi import Handler, asgi
from frazil.doors.telemetry.conversion import RequestConverter
from frazil.doors.telemetry.http import EndpointContext, TelemetryEndpoint
from frazil.doors.telemetry.intake import Intake
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.request_kind import RequestKind
from frazil.doors.telemetry.tenant_limits import TenantLimits
from frazil.doors.telemetry.unstored_rows import UnstoredRows
from frazil.doors.telemetry.writers import Writers
from frazil.log.log import Log
from frazil.ops.health import Health
from frazil.web.admission import Admission
from frazil.web.connections import connection_metrics
from frazil.web.ports.contributions import LOKI, OTLP, PROMETHEUS, BareEndpoint

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0


class TelemetryPart:
    name = "telemetry"

    def __init__(self, config: Config, metrics: CollectorRegistry, log: Callable[[], Log]) -> None:
        """`log` returns the log of this process, which starts before this part."""
        self._config = config
        self._registry = metrics
        self._metrics = TelemetryMetrics(metrics)
        self._log = log
        self._writers: Writers | None = None
        self._endpoints: list[BareEndpoint] = []
        self._grpc: OtlpGrpc | None = None

    async def start(self) -> None:
        config = self._config
        log = self._log()
        clock = log.world.clock
        writers = self._writers = Writers(log)
        limits = TenantLimits(config.telemetry, clock.monotonic)
        most, most_append = config.telemetry.max_body_mb * MIB, config.log.max_append_mb * MIB
        admission = Admission(
            config.telemetry.max_in_flight_mb * MIB, "`telemetry.max_in_flight_mb`", self._metrics.in_flight
        )
        context = EndpointContext(admission, self._metrics, most)
        unstored = UnstoredRows(config.telemetry.max_in_flight_mb * MIB)

        def intake(kind: RequestKind) -> Intake:
            converter = RequestConverter(kind, config.telemetry, limits, self._metrics, clock, most_append)
            return Intake(kind, converter, writers, self._metrics, unstored)

        signals = {signal: intake(signal.requests) for signal in SIGNALS}

        def otlp(signal: Signal) -> TelemetryEndpoint:
            return TelemetryEndpoint(signals[signal], OtlpDialect(signal), context)

        endpoints = self._endpoints
        if config.otlp.enabled:
            endpoints += [_endpoint(OTLP, signal.path, otlp(signal)) for signal in SIGNALS]
            connections = connection_metrics(self._registry)
            self._grpc = OtlpGrpc(config.otlp, signals, admission, self._metrics, connections, most)
            await self._grpc.start()
            logger.info("takes OTLP over gRPC", extra={"host": config.otlp.grpc.host, "port": self.grpc_port})
        if config.loki.enabled:
            push = TelemetryEndpoint(intake(PUSH), LokiDialect(), context)
            endpoints += [_endpoint(LOKI, LOKI_PUSH, push), _endpoint(LOKI, "/otlp/v1/logs", otlp(LOGS))]
        if config.prometheus.enabled:
            written = remote_write.RemoteWrite(
                TelemetryEndpoint(intake(remote_write.requests()), remote_write.RemoteWriteDialect(), context),
                TelemetryEndpoint(intake(remote_write.REQUESTS_V2), remote_write.RemoteWriteV2Dialect(), context),
            )
            endpoints += [
                _endpoint(PROMETHEUS, "/api/v1/otlp/v1/metrics", otlp(METRICS)),
                _endpoint(PROMETHEUS, remote_write.PATH, written),
            ]

    def contributions(self) -> Sequence[BareEndpoint]:
        """Returns what it contributes to ports, once it has started."""
        return self._endpoints

    @property
    def grpc_port(self) -> int:
        assert self._grpc is not None
        return self._grpc.port

    async def stop(self) -> None:
        if self._grpc is not None:
            await self._grpc.stop(STOP_SECONDS)

    def health(self) -> Health:
        assert self._writers is not None
        return Health.of(self._writers.problems())


def _endpoint(port: str, path: str, handler: Handler) -> BareEndpoint:
    return BareEndpoint(path, asgi(handler), "takes telemetry", port=port)
