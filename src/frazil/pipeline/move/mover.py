"""Movers: a mover keeps one streaming query running while there is something to move into its table.

It opens the table, starts the query at the table's offsets, and restarts it after failures. A query has processes of
its own, which take a while to start and need more memory than a quiet topic is worth. So queries start one at a time,
and a query that has had nothing to do for a while is stopped until there is work.

Errors that may pass are retried with growing pauses. An error that a person has to decide about stops only this
mover, which checks every few seconds whether the decision was made.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from frazil.errors import FrazilError, SparkFailed
from frazil.ops.health import HEALTHY, Health
from frazil.pipeline.move import task_reports
from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.move.flush import Batch, StartOver
from frazil.pipeline.move.range_source import BYTES
from frazil.pipeline.spark.session import first_line, spark_jvm

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2
START_SECONDS = 60.0
"""This is how long other queries wait for a query that is starting."""
_START_LOOK_SECONDS = 0.1
_STARTED = ("Waiting", "Processing", "No new data")
"""Spark's status message of a query begins with one of these once the query has asked for new data."""
RECHECK_SECONDS = 5.0
"""This is how often a stopped mover checks whether it may go on."""
_OURS = re.compile(r"frazil\.errors\.\w+\.(\w+): (.*?)\s*(?:\n|$)")
# Every try is a new query with its own id. The id is cut off, so that a repeated failure is logged once.
_WHICH_QUERY = re.compile(r"^\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_TRACE = "Traceback (most recent call last):"
_RAISED = re.compile(r"^[A-Za-z_][\w.]*: .*$", re.MULTILINE)


class Sink(Protocol):
    """A table that a mover fills."""

    @property
    def name(self) -> str:
        """The name of the table, for people."""

    def open(self) -> dict[int, int]:
        """Opens the table and returns the offsets that it needs next."""

    def stream(self, spark: SparkSession, starts: dict[int, int], folder: Path) -> DataFrame:
        """Returns the stream from these offsets on. Its offsets are maps from partition to next offset.

        `folder` is for files of the stream.
        """

    @property
    def trigger_seconds(self) -> float:
        """The interval of the stream's trigger."""

    def flush(self, batch: Batch, frame: DataFrame) -> None:
        """Moves the batch into the table. `frame` is the stream's data frame of the batch."""


@dataclass(frozen=True)
class MoverStatus:
    problem: FrazilError | None = None
    failures: int = 0
    """This is how many tries have failed in a row."""

    def health(self) -> Health:
        if self.problem is None:
            return HEALTHY
        return Health("degraded", str(self.problem))


class Mover:
    def __init__(self, spark: SparkSession, context: PipelineContext, topic: str, sink: Sink, scratch: Path) -> None:
        self.topic = topic
        self.sink = sink
        self.status = MoverStatus()
        self._spark = spark
        self._context = context
        self._scratch = scratch
        self._failure: FrazilError | None = None
        self._query: StreamingQuery | None = None
        self._moved = False
        """This says whether a batch was moved since the last check for idleness."""
        self._busy = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"mover-{sink.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Waits for the batch that is being moved, then stops the query."""
        self._ended.set()
        if self._busy.acquire(timeout=timeout):
            self._busy.release()
        query = self._query
        if query is not None:
            _quietly(query.stop)
        self._thread.join(timeout)

    def _live(self) -> None:
        while not self._stopping:
            try:
                self._move()
            except StartOver as again:
                logger.info("starting over", extra={"topic": self.topic, "reason": str(again)})
            except FrazilError as error:
                self._pause(self._failed(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, this topic goes on and health tells
                self._pause(self._failed(SparkFailed(f"{type(error).__name__}: {first_line(error)}")))

    @property
    def _stopping(self) -> bool:
        return self._ended.is_set() or self._context.stopping.is_set()

    def _pause(self, seconds: float) -> None:
        if not self._ended.is_set():
            self._context.stopping.wait(seconds)

    def _failed(self, error: FrazilError) -> float:
        """Records a failure, logs it if it is new, and returns how long to wait."""
        failures = self.status.failures + 1
        if str(error) != str(self.status.problem):
            logger.error("not moving", extra={"topic": self.topic, "table": self.sink.name, "reason": str(error)})
        self._context.metrics.errors.count(error)
        self._context.metrics.failures.labels(self.topic, type(error).__name__).inc()
        self.status = MoverStatus(error, failures)
        return self._context.backoff.delay(failures, self._context.world.rng) if error.retryable else RECHECK_SECONDS

    def _move(self) -> None:
        starts = self.sink.open()
        self._context.note_committed(self.topic, self.sink.name, starts)
        if self._is_idle():
            self.status = MoverStatus()
            self._await_work()
            return
        folder = Path(tempfile.mkdtemp(prefix="query-", dir=self._scratch))
        try:
            self._follow(starts, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _follow(self, starts: dict[int, int], folder: Path) -> None:
        self._failure = None
        checkpoint = folder / "checkpoint"
        # The query's thread inherits the pool, so tables share the cores evenly, however many tasks each has.
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.sink.name)
        with self._context.starting:
            if self._stopping:
                return
            self._query = (
                self.sink.stream(self._spark, starts, folder)
                .writeStream.foreachBatch(partial(self._on_batch, starts, checkpoint))
                .queryName(self.sink.name)
                .option("checkpointLocation", checkpoint.as_uri())
                .trigger(processingTime=f"{round(self.sink.trigger_seconds * 1000)} milliseconds")
                .start()
            )
            self._await_start(self._query)
        if self._stopping:
            # `stop` may have been called before `_query` was set.
            _quietly(self._query.stop)
        try:
            # The mover is healthy again once a batch was moved, or a trigger has passed without anything to move.
            while self.status.problem is not None and not self._query.awaitTermination(_LOOK_SECONDS):
                if self._query.lastProgress is not None and self._is_idle():
                    self.status = MoverStatus()
            while not self._query.awaitTermination(max(1, round(self._context.config.pipeline.idle_seconds))):
                if self._end_if_quiet(self._query):
                    return
        except PySparkException as error:
            raise self._failure or to_frazil_error(error) from error

    def _await_start(self, query: StreamingQuery) -> None:
        """Waits until the processes of the query have started, it has failed, or the time is up."""
        deadline = time.monotonic() + START_SECONDS
        while query.isActive and not str(query.status["message"]).startswith(_STARTED):
            if self._stopping or time.monotonic() > deadline:
                return
            self._pause(_START_LOOK_SECONDS)

    def _await_work(self) -> None:
        """Waits until there is something to move."""
        while not self._stopping and self._is_idle():
            self._pause(_LOOK_SECONDS)

    def _end_if_quiet(self, query: StreamingQuery) -> bool:
        """Stops the query if it has moved nothing since the last call and has nothing to move."""
        moved, self._moved = self._moved, False
        if moved or not self._is_idle():
            return False
        with self._busy:
            query.stop()
        spark_jvm().give_back_memory()
        return True

    def _is_idle(self) -> bool:
        """Returns whether the table has all sealed records.

        Offsets of the table decide, because the stream of a batch that failed may wait until the batch is full again.
        """
        committed = self._context.committed.get((self.topic, self.sink.name), {})
        extents = self._context.log_extents(self.topic)
        return all(committed.get(partition, 0) >= extent.sealed_end for partition, extent in extents.items())

    def _on_batch(self, starts: dict[int, int], checkpoint: Path, frame: DataFrame, number: int) -> None:
        with self._busy:
            if self._stopping:
                return
            try:
                self.sink.flush(read_batch(checkpoint, number, starts), frame)
                self.status = MoverStatus()
                self._moved = True
            except FrazilError as error:
                self._failure = error
                raise
            except PySparkException as error:
                self._failure = to_frazil_error(error)
                raise
            except Exception as error:
                self._failure = SparkFailed(f"{type(error).__name__}: {first_line(error)}")
                raise


def read_batch(checkpoint: Path, number: int, starts: Mapping[int, int]) -> Batch:
    """Reads the offsets of a batch from Spark's offset log, where Spark writes them before the batch begins."""
    ends, size = _read_entry(checkpoint, number)
    first, before = _read_entry(checkpoint, number - 1) if number else (starts, 0)
    return Batch(first, ends, size - before)


def _read_entry(checkpoint: Path, number: int) -> tuple[dict[int, int], int]:
    """Returns the end offsets and the total bytes of a batch, which are in the last line of its entry."""
    entry = (checkpoint / "offsets" / str(number)).read_text().splitlines()
    said = json.loads(entry[-1])
    size = said.pop(BYTES, 0)
    return {int(each): end["offset"] if isinstance(end, dict) else end for each, end in said.items()}, size


def to_frazil_error(error: PySparkException) -> FrazilError:
    """Converts an error of Spark to the Frazil error that its text contains, or else to one with its first line."""
    text = str(error)
    for kind, message in _OURS.findall(text):
        ours = task_reports.error_by_name(kind, message)
        if ours is not None:
            return ours
    text = _WHICH_QUERY.sub("", text)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    if first.endswith(_TRACE) and (raised := _RAISED.search(text, text.index(_TRACE) + len(_TRACE))):
        first = first.removesuffix(_TRACE) + raised[0]
    return SparkFailed(first[:500])


def _quietly(call: Callable[[], object]) -> None:
    """Calls a function and ignores errors, because a query that has ended need not be stopped."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - Py4J raises what it likes when the JVM is gone
        logger.debug("stopping a query", extra={"reason": str(error)})
