"""Runs the pipeline: one Spark session, one transaction log, and a mover for each table."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from frazil.clock import World
from frazil.config.model import Config
from frazil.errors import FrazilError, IcebergError, SparkFailed, StorageError
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.registration import check_not_lost
from frazil.log.topics.schemas import list_topics
from frazil.ops.breaker import BreakerCollector, CircuitBreaker
from frazil.ops.health import HEALTHY, Health
from frazil.ops.retry import backoff_of
from frazil.pipeline.datasource.row_source import RowSource
from frazil.pipeline.lag import Lag
from frazil.pipeline.metrics import PipelineMetrics
from frazil.pipeline.move.attempt_cleanup import AttemptCleanup
from frazil.pipeline.move.base_table import BaseSink
from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.move.derived_table import DerivedSink
from frazil.pipeline.move.mover import Mover, Sink
from frazil.pipeline.move.range_source import RangeSource
from frazil.pipeline.spark.idle_daemons import IdleDaemons
from frazil.pipeline.spark.session import session_folder, spark_jvm, start_session, stop_session
from frazil.pipeline.txlog.log import TransactionLog
from frazil.store import open_store

logger = logging.getLogger(__name__)

DISCOVERY_SECONDS = 2.0
"""This is how often the pipeline looks for new topics."""


_COMPONENTS = {"iceberg": "catalog", "storage": "store", "txlog": "txlog"}
"""The health component that is unhealthy when the pipeline cannot go on, by the kind of the error."""


class Maintenance(Protocol):
    """The scheduled maintenance of the tables."""

    def run(self, stopping: threading.Event) -> None: ...

    def health(self) -> Health: ...


class Pipeline:
    """The pipeline of a process. It belongs to the thread that runs it, but any thread may call `health`."""

    def __init__(
        self,
        config: Config,
        registry: CollectorRegistry,
        schedule: Callable[[PipelineContext, SparkSession], Maintenance],
        world: World | None = None,
    ) -> None:
        self._config = config
        self._world = world or World()
        breaker = config.pipeline.breaker
        self._catalog_breaker = CircuitBreaker("catalog", breaker, self._world.clock, about=IcebergError)
        self._store_breaker = CircuitBreaker("store", breaker, self._world.clock, about=StorageError)
        self._registry = registry
        registry.register(BreakerCollector((self._catalog_breaker, self._store_breaker)))
        self._metrics = PipelineMetrics(registry)
        self._schedule = schedule
        self._maintenance: Maintenance | None = None
        self._txlog: TransactionLog | None = None
        self._movers: dict[tuple[str, str], Mover] = {}
        self._topics: set[str] = set()
        self._refused: dict[str, FrazilError] = {}
        self._housekeeping_errors: dict[str, Exception] = {}
        self._starting: str | None = "starting"
        self._problem: FrazilError | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """Moves records until `stop` is called. Raises if it cannot start."""
        txlog = self._txlog = TransactionLog.open(self._config.data_dir, self._config.pipeline.txlog, self._world)
        spark: SparkSession | None = None
        try:
            lake = Lake(self._config)
            if not self._await_catalog(lake):
                return
            store = open_store(self._config.store, self._config.data_dir)
            check_not_lost(lake, store)
            spark = start_session(self._config)
            spark.dataSource.register(RangeSource)
            spark.dataSource.register(RowSource)
            context = PipelineContext(
                config=self._config,
                lake=lake,
                store=store,
                txlog=txlog,
                world=self._world,
                metrics=self._metrics,
                catalog_breaker=self._catalog_breaker,
                store_breaker=self._store_breaker,
                application=spark.sparkContext.applicationId,
                parallelism=spark.sparkContext.defaultParallelism,
                stopping=self._stopping,
            )
            self._start_thread("maintenance", self._maintain, context, spark)
            self._start_thread("housekeeping", self._keep_house, context)
            self._starting = None
            logger.info("pipeline runs", extra={"catalog": lake.where, "spark": context.application})
            self._watch(spark, context, session_folder().make("queries"))
        finally:
            self._stop_movers()
            if spark is not None:
                stop_session()
            txlog.close()

    def failed(self, error: FrazilError) -> None:
        """Stores the error that `run` ended with, for the last report."""
        self._problem = error

    def stop(self) -> None:
        """Asks `run` to end. Any thread may call it. Batches that are being moved are finished."""
        self._stopping.set()

    def health(self) -> dict[str, Health]:
        """Returns the health by component: the pipeline itself, the tables, and the services they need."""
        found = {
            "pipeline": Health("degraded", self._starting) if self._starting else self._own_health(),
            "iceberg": self._tables_health(),
            "catalog": self._catalog_breaker.health(),
            "store": self._store_breaker.health(),
            "txlog": self._txlog_health(),
        }
        if self._maintenance is not None:
            found["maintenance"] = self._maintenance.health()
        if (problem := self._problem) is not None:
            component = _COMPONENTS.get(problem.kind, "pipeline")
            found["pipeline"] = Health("unhealthy", f"it cannot go on without the {component}")
            found[component] = Health("unhealthy", str(problem))
        return found

    def _own_health(self) -> Health:
        return Health.of(
            {name: error for name, error in list(self._housekeeping_errors.items()) if not _passes(error)}
        )

    def _tables_health(self) -> Health:
        problems: dict[str, Exception] = dict(self._refused)
        for (_, table), mover in list(self._movers.items()):
            if mover.status.problem is not None:
                problems[table] = mover.status.problem
        return Health.of(problems)

    def _txlog_health(self) -> Health:
        problem = self._txlog.problem if self._txlog is not None else None
        return HEALTHY if problem is None else Health("unhealthy", str(problem))

    def _await_catalog(self, lake: Lake) -> bool:
        """Waits until the catalog answers. Raises at once if it refuses the request.

        Returns False if the pipeline is stopped before that.
        """
        failed = 0
        while not self._stopping.is_set():
            try:
                with self._catalog_breaker:
                    lake.check()
                self._problem = None
                return True
            except FrazilError as error:
                if not error.retryable:
                    raise
                if self._problem is None:
                    logger.error("the catalog cannot be reached; trying on", extra={"reason": str(error)})
                    self._problem = error
            self._stopping.wait(backoff_of(self._config.pipeline.retry).delay(failed, self._world.rng))
            failed += 1
        return False

    def _watch(self, spark: SparkSession, context: PipelineContext, scratch: Path) -> None:
        said = ""
        jvm = spark_jvm()
        while not self._stopping.is_set():
            if not jvm.alive:
                # Nothing can be moved without the JVM, and a process can start it only once. So this process ends,
                # and its parent starts another.
                raise SparkFailed(f"Spark's JVM has ended: {jvm.cause()}.")
            try:
                with self._store_breaker:
                    topics = list_topics(context.store)
                for topic in self._topics - set(topics):
                    self._end(topic)
                for topic in topics:
                    self._begin(topic, spark, context, scratch)
                said = ""
                self._problem = None
            except FrazilError as error:
                # Errors that may pass show in the health of the circuit breakers. Each error is logged once.
                self._problem = None if error.retryable else error
                if str(error) != said:
                    logger.warning("cannot look for work", extra={"reason": str(error)})
                    said = str(error)
            self._stopping.wait(DISCOVERY_SECONDS)

    def _begin(self, topic: str, spark: SparkSession, context: PipelineContext, scratch: Path) -> None:
        """Starts the movers of a topic, unless they are running."""
        if topic in self._topics:
            return
        self._topics.add(topic)
        try:
            sinks: list[Sink] = [BaseSink(context, topic)]
            sinks += [DerivedSink(context, spark, topic, name) for name in self._config.topic(topic).derived]
        except FrazilError as error:
            # Only settings can be wrong here, and they do not change while the process runs.
            self._refused[topic] = error
            logger.error("cannot be moved", extra={"topic": topic, "reason": str(error)})
            return
        for sink in sinks:
            mover = Mover(spark, context, topic, sink, scratch)
            self._movers[topic, sink.name] = mover
            self._metrics.show(topic, sink.name)
            mover.start()
            logger.info("moving", extra={"topic": topic, "table": sink.name})

    def _end(self, topic: str) -> None:
        """Stops the movers of a topic that was deleted. A new topic of the same name is found like any other."""
        for key in [key for key in self._movers if key[0] == topic]:
            self._movers.pop(key).stop(DISCOVERY_SECONDS)
        self._refused.pop(topic, None)
        self._topics.discard(topic)
        logger.info("the topic was deleted", extra={"topic": topic})

    def _start_thread(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, name=name, daemon=True).start()

    def _maintain(self, context: PipelineContext, spark: SparkSession) -> None:
        if self._config.maintenance.enabled:
            self._maintenance = self._schedule(context, spark)
            self._maintenance.run(self._stopping)

    def _keep_house(self, context: PipelineContext) -> None:
        lag = Lag(context)
        tasks: dict[str, Callable[[], None]] = {
            "Leftovers.clean": AttemptCleanup(context).clean,
            "Lag.measure": lag.measure,
            "IdleDaemons.end": IdleDaemons(spark_jvm().pid, self._world.clock).end,
        }
        self._registry.register(lag)
        while not self._stopping.wait(DISCOVERY_SECONDS):
            for name, task in tasks.items():
                try:
                    task()
                    self._housekeeping_errors.pop(name, None)
                except Exception as error:  # noqa: BLE001 - whatever it is, the movers go on and health tells
                    if str(error) != str(self._housekeeping_errors.get(name)):
                        logger.warning("housekeeping failed", extra={"reason": str(error)})
                    self._housekeeping_errors[name] = error

    def _stop_movers(self) -> None:
        """Stops all movers within the shutdown timeout."""
        self._stopping.set()
        deadline = self._world.clock.monotonic() + self._config.server.shutdown_timeout_seconds
        for mover in self._movers.values():
            mover.stop(max(0.1, deadline - self._world.clock.monotonic()))


def _passes(error: Exception) -> bool:
    """Returns whether the error may pass by itself. Then the circuit breakers show it in their health."""
    return isinstance(error, FrazilError) and error.retryable
