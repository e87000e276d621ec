"""`frazil serve`: everything on one machine, wired together."""

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


def build_parts(config: Config, metrics: CollectorRegistry) -> Sequence[Part]:
    """What runs, in the order in which it starts."""
    return (LogPart(config, metrics),)


async def serve(config: Config, announce: Callable[[str], None]) -> signal.Signals | None:
    """Run until a signal, which is returned. `announce` is called with the HTTP address once everything works."""
    health = HealthRegistry()
    metrics = create_registry()
    parts = build_parts(config, metrics)
    server = HttpServer(create_app(health, metrics), config.server.host, config.server.port)
    service = Service(parts, server, health, config.server.shutdown_timeout_seconds)
    return await service.run(on_ready=lambda: announce(server.url))
