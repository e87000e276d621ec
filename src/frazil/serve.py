"""`frazil serve`: everything on one machine, wired together. `frazil pipeline`: a part of it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.log_part import LogPart
from frazil.ops.health import HealthRegistry
from frazil.ops.http import create_app
from frazil.ops.metrics import create_registry
from frazil.ops.server import HttpServer
from frazil.ops.service import Part, Service
from frazil.pipeline_part import PipelinePart

Announce = Callable[[str], None]
"""Called with the HTTP address once everything works."""

Build = Callable[[Config, CollectorRegistry], Sequence[Part]]


def build_parts(config: Config, metrics: CollectorRegistry) -> Sequence[Part]:
    """What runs, in the order in which it starts."""
    pipeline = (PipelinePart(config, metrics),) if config.pipeline.enabled else ()
    return (LogPart(config, metrics), *pipeline)


def build_pipeline(config: Config, metrics: CollectorRegistry) -> Sequence[Part]:
    return (PipelinePart(config, metrics),)


async def serve(config: Config, announce: Announce) -> signal.Signals | None:
    """Run until a signal, which is returned."""
    return await _run(config, announce, build_parts)


async def serve_pipeline(config: Config, announce: Announce) -> signal.Signals | None:
    return await _run(config, announce, build_pipeline)


async def _run(config: Config, announce: Announce, build: Build) -> signal.Signals | None:
    health = HealthRegistry()
    metrics = create_registry()
    parts = build(config, metrics)
    server = HttpServer(create_app(health, metrics), config.server.host, config.server.port)
    service = Service(parts, server, health, config.server.shutdown_timeout_seconds)
    return await service.run(on_ready=lambda: announce(server.url))
