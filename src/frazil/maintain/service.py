"""Runs maintenance on its schedule without a pipeline, in a process of its own."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from frazil.clock import World
from frazil.config.model import Config
from frazil.errors import FrazilError, SparkFailed
from frazil.lake.catalog.lake import Lake
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.metrics import MaintenanceMetrics
from frazil.maintain.scheduler import Scheduler
from frazil.ops.health import Health
from frazil.pipeline.spark.session import spark_jvm, start_session, stop_session
from frazil.pipeline.txlog.log import TransactionLog
from frazil.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
FINISH_SECONDS = 20.0
"""An operation that runs when the service stops may take this long to finish its table."""


class MaintenanceService:
    """Runs what the settings schedule, whether or not `maintenance.enabled` lets pipelines do so.

    Spark is started when an operation needs it. `run` belongs to one thread; any thread may call the others.
    """

    def __init__(self, config: Config, registry: CollectorRegistry, world: World | None = None) -> None:
        scheduled = config.maintenance.model_copy(update={"enabled": True})
        self._config = config.model_copy(update={"maintenance": scheduled})
        self._metrics = MaintenanceMetrics(registry)
        self._world = world or World()
        self._stopping = threading.Event()
        self._spark: SparkSession | None = None
        self._scheduler: Scheduler | None = None
        self._problem: FrazilError | None = None

    def run(self) -> None:
        lake = Lake(self._config)
        txlog = TransactionLog.open(self._config.data_dir, self._config.pipeline.txlog, self._world)
        try:
            context = MaintenanceContext(
                config=self._config,
                lake=lake,
                store=open_store(self._config.store, self._config.data_dir),
                world=self._world,
                spark=self._session,
                txlog=txlog,
            )
            self._scheduler = Scheduler(context, self._metrics)
            logger.info("maintenance runs on its schedule", extra={"catalog": lake.where})
            self._watch(self._scheduler)
        finally:
            if self._spark is not None:
                stop_session()
            txlog.close()
            lake.close()

    def stop(self) -> None:
        self._stopping.set()

    def failed(self, error: FrazilError) -> None:
        self._problem = error

    def health(self) -> dict[str, Health]:
        if self._problem is not None:
            return {"maintenance": Health("unhealthy", str(self._problem))}
        if self._scheduler is None:
            return {"maintenance": Health("degraded", "starting")}
        return {"maintenance": self._scheduler.health()}

    def _watch(self, scheduler: Scheduler) -> None:
        working = threading.Thread(target=scheduler.run, args=(self._stopping,), name="maintenance", daemon=True)
        working.start()
        while not self._stopping.wait(WATCH_SECONDS):
            if self._spark is not None and not (jvm := spark_jvm()).alive:
                # A process can start a JVM only once. So this process ends, and its parent starts another.
                self._stopping.set()
                raise SparkFailed(f"Spark's JVM has ended: {jvm.cause()}.")
            if not working.is_alive():
                raise FrazilError("The schedule of maintenance has ended by itself.")
        working.join(FINISH_SECONDS)

    def _session(self) -> SparkSession:
        if self._spark is None:
            self._spark = start_session(self._config, name="frazil-maintain")
        return self._spark
