"""The process that the pipeline runs in, a child of `frazil serve` or `frazil pipeline`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from frazil.app.child_process import main
from frazil.config.model import Config
from frazil.maintain.metrics import MaintenanceMetrics
from frazil.maintain.scheduler import Scheduler
from frazil.pipeline.pipeline import Pipeline


def build_pipeline(config: Config, registry: CollectorRegistry) -> Pipeline:
    """Returns a pipeline that also runs maintenance on its schedule."""
    maintenance = MaintenanceMetrics(registry)
    return Pipeline(config, registry, lambda tools, spark: Scheduler.of(tools, spark, maintenance))


if __name__ == "__main__":
    main(build_pipeline)
