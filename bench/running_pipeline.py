"""Runs a pipeline inside the benchmark's process, so that its Spark session can be used as well."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from frazil.app.pipeline_process import build_pipeline
from frazil.config.model import Config
from frazil.errors import FrazilError
from frazil.lake.catalog.lake import dotted
from frazil.lake.tables.tables import base_identifier

POLL_SECONDS = 0.01
LONGEST_SECONDS = 300.0


class Trigger(NamedTuple):
    """A batch as Spark reports it. Times are in seconds."""

    number: int
    started: float
    """This time is of the wall clock."""
    phases: dict[str, float]

    @property
    def ended(self) -> float:
        return self.started + self.phases["triggerExecution"]


class RunningPipeline:
    """Runs a pipeline from entering to leaving."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._registry = CollectorRegistry()
        self._pipeline = build_pipeline(config, self._registry)
        self._failure: FrazilError | None = None
        self._thread = threading.Thread(target=self._run, name="pipeline")

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait(lambda: self._pipeline.health()["pipeline"].status == "healthy", "running")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipeline.stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._pipeline.run()
        except FrazilError as error:
            self._failure = error

    @property
    def spark(self) -> SparkSession:
        session = SparkSession._instantiatedSession
        assert session is not None
        return session

    def wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + LONGEST_SECONDS
        while not done():
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline:
                raise TimeoutError(f"not {what} after {LONGEST_SECONDS:g} seconds: {self._pipeline.health()}")
            time.sleep(POLL_SECONDS)

    def wait_for(self, topic: str, end: int) -> None:
        """Wait until the topic's table has all records below `end`."""
        labels = {"topic": topic, "table": self._table(topic), "partition": "0"}
        self.wait(
            lambda: (self._registry.get_sample_value("frazil_pipeline_committed_offset", labels) or 0) >= end,
            f"committed up to {end}",
        )

    def triggers(self, topic: str, after: int) -> list[Trigger]:
        """Returns the batches with a higher number than `after`. The newest of them may still be running."""
        query = self._query(topic)
        if query is None:
            return []
        number = _newest(query)
        self.wait(lambda: _newest(query) > number or query.status["isTriggerActive"] is False, "reported")
        return [each for each in map(_trigger, query.recentProgress) if each and each.number > after]

    def newest(self, topic: str) -> int:
        """Returns the number of the last batch, or -1 before the first."""
        return max((each.number for each in self.triggers(topic, -1)), default=-1)

    def _query(self, topic: str) -> StreamingQuery | None:
        """Returns the topic's query, or None while the pipeline has not noticed the topic."""
        queries = self.spark.streams.active
        return next((query for query in queries if query.name == self._table(topic)), None)

    def _table(self, topic: str) -> str:
        return dotted(base_identifier(self.config, topic))


def _newest(query: StreamingQuery) -> int:
    return max((each.number for each in map(_trigger, query.recentProgress) if each), default=-1)


def _trigger(progress: Any) -> Trigger | None:
    """Returns the batch of a report, or None if there was nothing to do."""
    if not progress.numInputRows:
        return None
    started = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp()
    return Trigger(progress.batchId, started, {name: value / 1000 for name, value in progress.durationMs.items()})
