"""Runs the log as a part of the process: recovery at the start, health and metrics meanwhile, sealing at the end."""

from __future__ import annotations

import asyncio
import logging
import shlex
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from frazil.config.model import Config
from frazil.disk.files import check_writable
from frazil.errors import FrazilError, LogBroken, PartitionTaken
from frazil.log import layout
from frazil.log.log import Log
from frazil.log.writer.writer import PartitionWriter
from frazil.ops.health import Health
from frazil.ops.metrics import ErrorCounter

logger = logging.getLogger(__name__)

ADOPT_SECONDS = 10.0
"""This often the part looks for WALs whose process is gone."""


class LogPart:
    name = "log"

    def __init__(self, config: Config, metrics: CollectorRegistry) -> None:
        self._config = config
        self._metrics = metrics
        self._errors = ErrorCounter(metrics)
        self._log: Log | None = None
        self._adopting: asyncio.Task[None] | None = None
        self._problem: FrazilError | None = None

    @property
    def log(self) -> Log:
        if self._log is None:
            raise FrazilError("The log is not started.")
        return self._log

    async def start(self) -> None:
        self._log = await asyncio.to_thread(Log, self._config, on_failure=self._errors.count)
        _warn_of_open_folder(self._config.data_dir)
        try:
            await self._adopt()
            await self._check_anything_served()
        except BaseException:
            await asyncio.to_thread(self._log.close)
            raise
        self._metrics.register(LogCollector(self._log))
        self._adopting = asyncio.create_task(self._keep_adopting())

    async def _check_anything_served(self) -> None:
        """Raise when every topic that exists has a stopped partition."""
        stopped = self.log.stopped()
        if not stopped or self._problem:
            return
        topics = set(await asyncio.to_thread(self.log.topics))
        if topics <= {topic for topic, _ in stopped}:
            raise next(iter(stopped.values()))

    async def _adopt(self) -> None:
        """Check that disk and store answer, and seal what processes that are gone left in their WALs.

        A store that does not answer is no reason not to start.
        """
        try:
            await asyncio.to_thread(check_writable, layout.wal_root(self._config.data_dir))
            await asyncio.to_thread(self.log.topics)
            before = self.log.stopped()
            try:
                found = await asyncio.to_thread(self.log.adopt_orphans)
            finally:
                self._log_stopped(before)
            self._problem = None
        except FrazilError as error:
            if not error.retryable:
                raise
            self._errors.count(error)
            logger.warning("disk or store do not work", extra={"reason": str(error)})
            self._problem = error
        else:
            if found:
                logger.info("sealed what other processes left", extra={"partitions": found})

    def _log_stopped(self, before: Mapping[tuple[str, int], FrazilError]) -> None:
        now = self.log.stopped()
        for (topic, partition), error in now.items():
            if str(error) != str(before.get((topic, partition), "")):
                self._errors.count(error)
                fields = {"topic": topic, "partition": partition, "reason": str(error)}
                logger.error("a partition is stopped; all others are served", extra=fields)
        for topic, partition in before.keys() - now.keys():
            logger.info("a partition is served again", extra={"topic": topic, "partition": partition})

    async def _keep_adopting(self) -> None:
        while True:
            await asyncio.sleep(ADOPT_SECONDS)
            try:
                await self._adopt()
            except Exception as error:  # noqa: BLE001 - whatever it is, health must tell
                self._errors.count(error)
                logger.error("cannot seal what is left in WALs", extra={"reason": str(error)})
                self._problem = error if isinstance(error, FrazilError) else FrazilError(str(error))

    async def stop(self) -> None:
        if self._adopting:
            self._adopting.cancel()
            await asyncio.gather(self._adopting, return_exceptions=True)
        await asyncio.to_thread(self.log.close)

    def health(self) -> Health:
        problems = dict(self.log.problems())
        lost = any(isinstance(error, PartitionTaken | LogBroken) for error in problems.values())
        problems |= {f"{topic}/{partition}": error for (topic, partition), error in self.log.stopped().items()}
        if self._problem:
            problems["disk or store"] = self._problem
        return Health.of(problems, "unhealthy" if lost else "degraded")

    def oldest_unsealed(self) -> dict[str, float]:
        """Returns for each topic the age of its oldest record that is not sealed, in seconds."""
        if self._log is None:
            return {}
        now = self._log.world.clock.now_ms()
        ages: dict[str, float] = {}
        for writer in self._log.writers:
            ages[writer.topic] = max(ages.get(writer.topic, 0.0), _age(writer, now))
        return ages


def _warn_of_open_folder(folder: Path) -> None:
    """Log a warning if other users may enter the data folder.

    The folder stays as it is, because somebody may want it so. Files that Frazil creates in it are private.
    """
    try:
        mode = stat.S_IMODE(folder.stat().st_mode)
    except OSError:
        return
    if mode & 0o077:
        logger.warning(
            "other users of this machine may look into the data folder",
            extra={"mode": f"{mode:04o}", "to close it": shlex.join(["chmod", "-R", "go=", str(folder.resolve())])},
        )


class LogCollector(Collector):
    """Reads the writers' own counts whenever metrics are collected."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def collect(self) -> Iterator[Metric]:
        writers = self._log.writers
        for name, help_text, attribute in _COUNTERS:
            counter = CounterMetricFamily(f"frazil_log_{name}", help_text, labels=("topic", "partition"))
            for writer in writers:
                counter.add_metric(_labels(writer), getattr(writer.stats, attribute))
            yield counter
        now = self._log.world.clock.now_ms()
        for name, help_text, value in (
            ("tail_bytes", "Bytes that are not sealed yet.", lambda w: w.tail.nbytes),
            ("tail_records", "Records that are not sealed yet.", lambda w: w.next_offset - w.sealed_end),
            ("next_offset", "Offset of the next record.", lambda w: w.next_offset),
            ("sealed_offset", "Offset up to which records are sealed.", lambda w: w.sealed_end),
            ("oldest_unsealed_seconds", "Age of the oldest unsealed record.", lambda w: _age(w, now)),
        ):
            gauge = GaugeMetricFamily(f"frazil_log_{name}", help_text, labels=("topic", "partition"))
            for writer in writers:
                gauge.add_metric(_labels(writer), value(writer))
            yield gauge


_COUNTERS = (
    ("appends", "Appends acknowledged or about to be.", "appends"),
    ("records", "Records appended.", "records"),
    ("bytes", "Bytes appended.", "bytes"),
    ("commits", "Groups of appends that shared one write.", "commits"),
    ("duplicates", "Appends that were stored already.", "duplicates"),
    ("backpressure", "Appends that had to wait for room.", "waits_for_room"),
    ("refused", "Appends refused because the tail stayed full.", "refused_full"),
    ("segments_sealed", "Segments put.", "segments"),
    ("sealed_records", "Records sealed.", "sealed_records"),
    ("sealed_bytes", "Bytes of the segments put.", "sealed_bytes"),
    ("seal_seconds", "Time spent sealing.", "seal_seconds"),
    ("seal_failures", "Attempts to seal that failed.", "seal_failures"),
)


def _labels(writer: PartitionWriter) -> list[str]:
    return [writer.topic, str(writer.partition)]


def _age(writer: PartitionWriter, now_ms: int) -> float:
    oldest = writer.tail.oldest_ms
    return 0.0 if oldest is None else max(0.0, (now_ms - oldest) / 1000)
