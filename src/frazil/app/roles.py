"""Wires the parts of a process together: all of them (`frazil serve`), or those of one role."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from frazil.app.parts.hot import HotPart
from frazil.app.parts.kafka import KafkaPart
from frazil.app.parts.log import LogPart
from frazil.app.parts.pipeline import PipelinePart
from frazil.app.parts.query import QueryPart
from frazil.app.parts.telemetry import TelemetryPart
from frazil.app.parts.topics import TopicsPart
from frazil.app.service import Part, Service
from frazil.app.status import status_endpoint
from frazil.config.model import Config
from frazil.ops.health import HealthRegistry, HealthReport
from frazil.ops.metrics import create_registry
from frazil.ops.open_files import allow_open_files
from frazil.scan.lookup.cold_lookup import ColdLookup
from frazil.web.hosts import AllowedHosts, BrowserGuard
from frazil.web.operations import Endpoint, create_app
from frazil.web.server import HttpServer

Announce = Callable[[str, HealthReport], None]
"""Called once everything has started, with the HTTP address and the health report."""


@dataclass(frozen=True)
class Assembly:
    parts: Sequence[Part]
    """Parts start in this order and stop in reverse, so that doors stop before the log that they append to."""
    endpoints: Sequence[Endpoint] = ()
    optional: Collection[str] = ()
    """The process counts as ready without these parts, because the others work without them."""


Role = Callable[[Config, CollectorRegistry], Assembly]


def everything(config: Config, metrics: CollectorRegistry) -> Assembly:
    log = LogPart(config, metrics)
    pipeline = (PipelinePart(config, metrics, log),) if config.pipeline.enabled else ()
    hot, query = HotPart(config, log, metrics, ColdLookup(config)), QueryPart(config, log, metrics)
    topics = TopicsPart(config, metrics, lambda: log.log)
    # The pipeline stops last but for the log: finishing its batch may take all the time that is left.
    parts = (log, *pipeline, hot, *_doors(config, metrics, log), topics, query)
    endpoints = (*hot.endpoints, *topics.endpoints, *query.endpoints)
    return Assembly(parts, endpoints, optional=[part.name for part in pipeline])


def ingest(config: Config, metrics: CollectorRegistry) -> Assembly:
    """Takes records in; the pipeline is another process, here or elsewhere."""
    log = LogPart(config, metrics)
    hot = HotPart(config, log, metrics, ColdLookup(config))
    topics = TopicsPart(config, metrics, lambda: log.log)
    return Assembly((log, hot, *_doors(config, metrics, log), topics), (*hot.endpoints, *topics.endpoints))


def _doors(config: Config, metrics: CollectorRegistry, log: LogPart) -> list[Part]:
    kafka = [KafkaPart(config, metrics, lambda: log.log)] if config.kafka.bootstrap_servers else []
    telemetry = [TelemetryPart(config, metrics, lambda: log.log)] if config.takes_telemetry else []
    return [*kafka, *telemetry]


def pipeline_alone(config: Config, metrics: CollectorRegistry) -> Assembly:
    return Assembly((PipelinePart(config, metrics),))


GC_THRESHOLD = 100_000
"""Python's garbage collector runs after this many allocations.

Each message and each request is a container that the collector would look at several times by default: measured, a
fifth of the time that consuming takes. With this threshold most of them are gone before it runs.
"""


def _connections(config: Config) -> int:
    """Returns how many connections all ports together may have."""
    ports = (
        config.server,
        *((config.otlp.http, config.otlp.grpc) if config.otlp.enabled else ()),
        *((config.loki,) if config.loki.enabled else ()),
        *((config.prometheus,) if config.prometheus.enabled else ()),
        *((config.danube,) if config.danube.enabled else ()),
    )
    return sum(port.max_connections for port in ports)


async def serve(config: Config, role: Role, announce: Announce) -> signal.Signals | None:
    """Run until a signal arrives, and return it."""
    health = HealthRegistry()
    metrics = create_registry()
    assembly = role(config, metrics)
    endpoints = [status_endpoint(config, health, metrics), *assembly.endpoints]
    allow_open_files(_connections(config))
    at = config.server
    app = BrowserGuard(create_app(health, metrics, endpoints), AllowedHosts(at.allowed_hosts, at.host), names=True)
    server = HttpServer(app, at.host, at.port, max_connections=at.max_connections, metrics=metrics)
    service = Service(
        assembly.parts, server, health, config.server.shutdown_timeout_seconds, optional=assembly.optional
    )

    def ready() -> None:
        # Objects that exist now stay. Looking through them for garbage again and again costs more than requests do.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
        announce(server.url, health.report())

    return await service.run(on_ready=ready)
