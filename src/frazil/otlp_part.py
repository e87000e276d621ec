"""The OTLP door as a part of a running Frazil."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.config.section import MIB
from frazil.doors.otlp.admission import Admission
from frazil.doors.otlp.http import OtlpHttp
from frazil.doors.otlp.intake import Intake
from frazil.doors.otlp.limits import Limits
from frazil.doors.otlp.metrics import OtlpMetrics
from frazil.doors.otlp.rpc import OtlpGrpc
from frazil.doors.otlp.signals import SIGNALS
from frazil.doors.otlp.writers import Writers
from frazil.log.log import Log
from frazil.ops.health import Health
from frazil.ops.server import HttpServer

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0


class OtlpPart:
    name = "otlp"

    def __init__(self, config: Config, metrics: CollectorRegistry, log: Callable[[], Log]) -> None:
        """`log` gives the log of this process, which is started before this part."""
        self._config = config
        self._metrics = OtlpMetrics(metrics)
        self._log = log
        self._writers: Writers | None = None
        self._http: HttpServer | None = None
        self._grpc: OtlpGrpc | None = None

    async def start(self) -> None:
        config = self._config.otlp
        log = self._log()
        clock = log.world.clock
        writers = self._writers = Writers(log)
        limits = Limits(config.limits, clock.monotonic)
        admission = Admission(config.max_in_flight_mb * MIB, self._metrics.in_flight)
        most, most_append = config.max_body_mb * MIB, self._config.log.max_append_mb * MIB

        intakes = [Intake(signal, writers, config, limits, self._metrics, clock, most_append) for signal in SIGNALS]
        http = OtlpHttp(intakes, admission, self._metrics, most)
        self._http = HttpServer(http.app, config.http.host, config.http.port, "otlp.http", config.tls)
        self._grpc = OtlpGrpc(config, intakes, admission, self._metrics, most)
        await self._http.start()
        await self._grpc.start()
        logger.info("takes OTLP", extra={"http": self.http_url, "grpc": f"{config.grpc.host}:{self.grpc_port}"})

    @property
    def http_url(self) -> str:
        assert self._http is not None
        return self._http.url

    @property
    def grpc_port(self) -> int:
        assert self._grpc is not None
        return self._grpc.port

    async def stop(self) -> None:
        assert self._http is not None
        assert self._grpc is not None
        await asyncio.gather(self._http.stop(STOP_SECONDS), self._grpc.stop(STOP_SECONDS))

    def health(self) -> Health:
        assert self._writers is not None
        return Health.of(self._writers.problems())
