"""Runs work with Spark in a process of its own, as a child of the process that serves.

It reads its settings from standard input, where credentials are safe, and stops when standard input ends, because its
parent is gone then. It reports its health and metrics on standard output, one JSON line at a time.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn, Protocol

from prometheus_client import CollectorRegistry
from pyspark.logger import PySparkLogger

from frazil.config.model import Config
from frazil.errors import FrazilError
from frazil.ops.health import Health
from frazil.ops.logging import setup_logging
from frazil.ops.metrics import render
from frazil.pipeline.process_messages import PipelineReport, settings_from

REPORT_SECONDS = 1.0
METRICS_SECONDS = 5.0


_ERRORS_OF_QUERIES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""These loggers of PySpark write the stack traces of errors that PySpark also raises."""


class Work(Protocol):
    """Is what the process is for."""

    def run(self) -> None:
        """Works until `stop` is called. Raises an error if it cannot go on."""

    def stop(self) -> None:
        """Asks `run` to end. Any thread may call it."""

    def failed(self, error: FrazilError) -> None:
        """Stores the error that `run` ended with, for the last report."""

    def health(self) -> dict[str, Health]: ...


def main(make: Callable[[Config, CollectorRegistry], Work]) -> NoReturn:
    config = settings_from(sys.stdin.buffer.readline())
    setup_logging(config.logging)
    for name in _ERRORS_OF_QUERIES:
        # The logger must be of PySpark's own class: another class would not accept its arguments.
        PySparkLogger.getLogger(name).disabled = True
    # This logger repeats why a batch failed, which the batch's mover logs.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    # PyIceberg logs a line for every table that it opens.
    logging.getLogger("pyiceberg").setLevel(logging.WARNING)
    code = 0
    try:
        run(config, make)
    except FrazilError as error:
        # The last report told the parent, which logs it.
        code = error.exit_code
    sys.stdout.flush()
    os._exit(code)


def run(config: Config, make: Callable[[Config, CollectorRegistry], Work]) -> None:
    registry = CollectorRegistry()
    work = make(config, registry)
    signal.signal(signal.SIGTERM, lambda *_: work.stop())
    threading.Thread(target=_watch_parent, args=(work,), name="parent", daemon=True).start()
    ended = threading.Event()
    reporter = threading.Thread(target=_report, args=(work, registry, ended), name="reports", daemon=True)
    reporter.start()
    try:
        work.run()
    except FrazilError as error:
        work.failed(error)
        raise
    finally:
        ended.set()
        reporter.join()


def _watch_parent(work: Work) -> None:
    """Stop the work when the parent ends, which ends standard input."""
    sys.stdin.buffer.read()
    work.stop()


def _report(work: Work, registry: CollectorRegistry, ended: threading.Event) -> None:
    reported: dict[str, Health] | None = None
    metrics_due = 0.0
    while True:
        last = ended.wait(REPORT_SECONDS)
        now, health = time.monotonic(), work.health()
        metrics = render(registry)[0].decode() if last or now >= metrics_due else None
        if metrics is not None:
            metrics_due = now + METRICS_SECONDS
        if metrics is not None or health != reported:
            reported = health
            try:
                _write_all(sys.stdout.fileno(), (PipelineReport(health, metrics).to_line() + "\n").encode())
            except BrokenPipeError:
                return
        if last:
            return


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
