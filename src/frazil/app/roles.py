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
from frazil.app.parts.pipeline import MaintenancePart, PipelinePart
from frazil.app.parts.ports import PortsPart
from frazil.app.parts.query import QueryPart
from frazil.app.parts.telemetry import TelemetryPart
from frazil.app.parts.tempo_grpc import TempoGrpcPart
from frazil.app.parts.topics import TopicsPart
from frazil.app.service import Part, Service
from frazil.app.status import status_endpoint
from frazil.config.model import Config
from frazil.ops.health import HealthRegistry, HealthReport
from frazil.ops.metrics import create_registry
from frazil.ops.open_files import allow_open_files
from frazil.scan.lookup.cold_lookup import ColdLookup
from frazil.web.hosts import AllowedHosts, BrowserGuard
from frazil.web.ports.contributions import OPERATIONS, Contribution
from frazil.web.ports.listeners import check_settings, listeners
from frazil.web.ports.operations import create_app
from frazil.web.server import HttpServer

Announce = Callable[[str, HealthReport], None]
"""Called once everything has started, with the HTTP address and the health report."""


@dataclass(frozen=True)
class Assembly:
    parts: Sequence[Part]
    """Parts start in this order and stop in reverse, so that doors stop before the log that they append to."""
    endpoints: Sequence[Contribution] = ()
    """What the parts contribute to ports, as far as it is known before they start."""
    later: Sequence[Callable[[], Sequence[Contribution]]] = ()
    """Each returns what a part contributes to other ports than operations, once it has started."""
    optional: Collection[str] = ()
    """The process counts as ready without these parts, because the others work without them."""


Role = Callable[[Config, CollectorRegistry], Assembly]


def everything(config: Config, metrics: CollectorRegistry) -> Assembly:
    log = LogPart(config, metrics)
    pipeline = (PipelinePart(config, metrics, log),) if config.pipeline.enabled else ()
    hot, query = HotPart(config, log, metrics, ColdLookup(config)), QueryPart(config, metrics, log)
    topics = TopicsPart(config, metrics, lambda: log.log)
    kafka, telemetry = _kafka(config, metrics, log), _telemetry(config, metrics, log)
    # The pipeline stops last but for the log: finishing its batch may take all the time that is left.
    parts = (log, *pipeline, hot, *kafka, *telemetry, topics, query, *_tempo_grpc(config, metrics, query))
    endpoints = (*hot.endpoints, *topics.endpoints, *query.endpoints)
    return Assembly(
        parts, endpoints, [part.contributions for part in telemetry], optional=[part.name for part in pipeline]
    )


def ingest(config: Config, metrics: CollectorRegistry) -> Assembly:
    """Takes records in; the pipeline is another process, here or elsewhere."""
    log = LogPart(config, metrics)
    hot = HotPart(config, log, metrics, ColdLookup(config))
    topics = TopicsPart(config, metrics, lambda: log.log)
    kafka, telemetry = _kafka(config, metrics, log), _telemetry(config, metrics, log)
    later = [part.contributions for part in telemetry]
    return Assembly((log, hot, *kafka, *telemetry, topics), (*hot.endpoints, *topics.endpoints), later)


def query_alone(config: Config, metrics: CollectorRegistry) -> Assembly:
    """Answers queries from object store and catalog, and from WALs of other processes in the same data folder."""
    query = QueryPart(config, metrics)
    return Assembly((query, *_tempo_grpc(config, metrics, query)), query.endpoints)


def _kafka(config: Config, metrics: CollectorRegistry, log: LogPart) -> list[KafkaPart]:
    return [KafkaPart(config, metrics, lambda: log.log)] if config.kafka.bootstrap_servers else []


def _telemetry(config: Config, metrics: CollectorRegistry, log: LogPart) -> list[TelemetryPart]:
    return [TelemetryPart(config, metrics, lambda: log.log)] if config.takes_telemetry else []


def _tempo_grpc(config: Config, metrics: CollectorRegistry, query: QueryPart) -> list[TempoGrpcPart]:
    return [TempoGrpcPart(config, metrics, lambda: query.room)] if config.tempo.enabled else []


def pipeline_alone(config: Config, metrics: CollectorRegistry) -> Assembly:
    return Assembly((PipelinePart(config, metrics),))


def maintenance_alone(config: Config, metrics: CollectorRegistry) -> Assembly:
    return Assembly((MaintenancePart(config, metrics),))


GC_THRESHOLD = 100_000
"""Python's garbage collector runs after this many allocations.

Each message and each request is a container that the collector would look at several times by default: measured, a
fifth of the time that consuming takes. With this threshold most of them are gone before it runs.
"""


async def serve(config: Config, role: Role, announce: Announce) -> signal.Signals | None:
    """Run until a signal arrives, and return it."""
    health = HealthRegistry()
    metrics = create_registry()
    assembly = role(config, metrics)
    status = status_endpoint(config, health, metrics)
    check_settings(config)
    opened = {each.port_name for each in listeners(config)}
    known = [each for each in (status, *assembly.endpoints) if each.port in opened]
    allow_open_files(sum(each.max_connections for each in listeners(config)))
    at = config.server
    operations = [each for each in known if each.port == OPERATIONS]
    app = BrowserGuard(create_app(health, metrics, operations), AllowedHosts(at.allowed_hosts, at.host), names=True)
    server = HttpServer(app, at.host, at.port, max_connections=at.max_connections, metrics=metrics)

    def contributions() -> list[Contribution]:
        return [*known, *(each for part in assembly.later for each in part())]

    ports = PortsPart(config, health, metrics, contributions)
    parts = [*assembly.parts, ports] if assembly.later or len(known) > len(operations) else assembly.parts
    service = Service(parts, server, health, at.shutdown_timeout_seconds, optional=assembly.optional)

    def ready() -> None:
        # Objects that exist now stay. Looking through them for garbage again and again costs more than requests do.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
        announce(server.url, health.report())

    return await service.run(on_ready=ready)
