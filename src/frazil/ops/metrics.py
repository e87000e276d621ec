"""Prometheus metrics. There is no global registry: one is made at start-up and passed to whoever measures.

A part defines its metrics in a class of its own that takes the registry:

    class LogMetrics:
        def __init__(self, registry: CollectorRegistry) -> None:
            self.appends = Counter("frazil_log_appends", "Appends acknowledged.", ["topic"], registry=registry)
"""

from __future__ import annotations

import platform

from prometheus_client import CollectorRegistry, GCCollector, Info, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from frazil import __version__


def create_registry() -> CollectorRegistry:
    """A registry with the process's own metrics and `frazil_build_info`."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    build = Info("frazil_build", "Version of Frazil and of what it runs on.", registry=registry)
    build.info({"version": __version__, "python": platform.python_version()})
    return registry


def render(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """All metrics and their content type: OpenMetrics when `accept` asks for it, else the Prometheus text format."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
