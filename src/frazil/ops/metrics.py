"""Creates and renders Prometheus metrics.

There is no global registry: one is made at start-up and passed to whoever measures. A part defines its metrics in a
class of its own that takes the registry:

    class LogMetrics:
        def __init__(self, registry: CollectorRegistry) -> None:
            self.appends = Counter("frazil_log_appends", "Appends acknowledged.", ["topic"], registry=registry)

Series that several parts or processes count under one name, as `ErrorCounter` does, are added up when they are shown.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, GCCollector, Info, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from frazil.errors import FrazilError
from frazil.version import __version__

_KINDS = ("kafka", "registry", "buffer", "log", "txlog", "storage", "iceberg", "spark", "other")
"""Shown from the start, so that the first failure of a kind is an increase."""

_COUNTED = ("counter", "histogram", "summary")


def create_registry() -> CollectorRegistry:
    """Returns a registry with the process's own metrics and `frazil_build_info`."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    build = Info("frazil_build", "Version of Frazil and of what it runs on.", registry=registry)
    build.info({"version": __version__, "python": platform.python_version()})
    return registry


class ErrorCounter(Collector):
    """Counts failures by kind as `frazil_errors_total`, also those that a later try made good.

    A registry may have several of these counters, because each part has its own.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counter = Counter("frazil_errors", "Failures by kind, each try counted.", ("type",), registry=None)
        for kind in _KINDS:
            self._counter.labels(kind)
        registry.register(self)

    def count(self, error: BaseException) -> None:
        self._counter.labels(error.kind if isinstance(error, FrazilError) else "other").inc()

    def collect(self) -> Iterator[Metric]:
        yield from self._counter.collect()


def render(registry: Collector, accept: str = "") -> tuple[bytes, str]:
    """Returns all metrics and their content type:

    OpenMetrics when `accept` asks for it, else the Prometheus text format.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_MergedMetrics(registry)), content_type


def merge_families(families: Iterable[Metric]) -> list[Metric]:
    """Returns each family once, with the values of samples that have the same name and labels added up.

    The time when a series began is left out: it would be wrong whenever only one of the processes restarted.
    """
    found: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Sample]] = {}
    for family in families:
        if family.name not in found:
            found[family.name] = Metric(family.name, family.documentation, family.type, family.unit)
            values[family.name] = {}
        samples = values[family.name]
        for sample in family.samples:
            if family.type in _COUNTED and sample.name == f"{family.name}_created":
                continue
            key = (sample.name, frozenset(sample.labels.items()))
            before = samples.get(key)
            samples[key] = sample if before is None else sample._replace(value=before.value + sample.value)
    for name, family in found.items():
        family.samples = list(values[name].values())
    return list(found.values())


class _MergedMetrics(Collector):
    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> list[Metric]:
        return merge_families(self._registry.collect())
