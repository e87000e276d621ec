"""Starts Spark for tests: one JVM for all tests of a worker, because each takes seconds and half a gigabyte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from frazil.config.model import Config
from frazil.lake.catalog.spark import spark_settings
from tests.servers.class_data import QUICK_COMPILER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTHING: Mapping[str, str] = {}

SHORT_LIVED = {"spark.executor.extraJavaOptions": QUICK_COMPILER}


class SparkKeeper:
    """Starts the shared session when it is needed, and again after a test that had a JVM of its own."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._shared: SparkSession | None = None

    def shared(self) -> SparkSession:
        if self._shared is None:
            self._shared = self.own(self._config)
        return self._shared

    def for_lake(self, config: Config) -> SparkSession:
        """Returns a session of the shared JVM with another catalog."""
        session = self.shared().newSession()
        for key in spark_settings(self._config):
            if key.startswith("spark.sql.catalog."):
                session.conf.unset(key)
        for key, value in spark_settings(config).items():
            if key.startswith("spark.sql.catalog."):
                session.conf.set(key, value)
        return session

    def own(self, config: Config, extra: Mapping[str, str] = _NOTHING) -> SparkSession:
        from frazil.pipeline.spark.session import start_session

        self.stop()
        return start_session(config, extra={**SHORT_LIVED, **extra})

    def stop(self) -> None:
        from frazil.pipeline.spark.session import stop_session

        self._shared = None
        stop_session()
