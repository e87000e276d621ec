"""The process that the pipeline runs in, a child of `frazil serve` or `frazil pipeline`.

It gets its settings on its standard input, where credentials are safe, and ends when that does: its parent is gone
then, whatever became of it. On its standard output it says how it is, one JSON line at a time.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from typing import NoReturn

from prometheus_client import CollectorRegistry
from pyspark.logger import PySparkLogger

from frazil.config.model import Config
from frazil.errors import FrazilError
from frazil.maintain.metrics import MaintenanceMetrics
from frazil.maintain.schedule import Scheduler
from frazil.ops.health import Health
from frazil.ops.logging import setup_logging
from frazil.ops.metrics import render
from frazil.pipeline.pipeline import Pipeline
from frazil.pipeline.report import Report, settings_from

REPORT_SECONDS = 1.0
METRICS_SECONDS = 5.0


_ERRORS_OF_QUERIES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's loggers that write down the stack traces of errors it raises as well."""


def main() -> NoReturn:
    config = settings_from(sys.stdin.buffer.readline())
    setup_logging(config.logging)
    for name in _ERRORS_OF_QUERIES:
        # By its own class: a logger that another class has made would not take what PySpark tells it.
        PySparkLogger.getLogger(name).disabled = True
    # What a batch failed with, which its mover tells.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    # A line for every table that is opened.
    logging.getLogger("pyiceberg").setLevel(logging.WARNING)
    code = 0
    try:
        run(config)
    except FrazilError as error:
        # The parent has heard it in the last report, and tells people.
        code = error.exit_code
    sys.stdout.flush()
    os._exit(code)


def build_pipeline(config: Config, registry: CollectorRegistry) -> Pipeline:
    """The pipeline with its maintenance."""
    maintenance = MaintenanceMetrics(registry)
    return Pipeline(config, registry, lambda tools, spark: Scheduler.of(tools, spark, maintenance))


def run(config: Config) -> None:
    registry = CollectorRegistry()
    pipeline = build_pipeline(config, registry)
    signal.signal(signal.SIGTERM, lambda *_: pipeline.stop())
    threading.Thread(target=_watch_parent, args=(pipeline,), name="parent", daemon=True).start()
    ended = threading.Event()
    reporter = threading.Thread(target=_report, args=(pipeline, registry, ended), name="reports", daemon=True)
    reporter.start()
    try:
        pipeline.run()
    except FrazilError as error:
        pipeline.failed(error)
        raise
    finally:
        ended.set()
        reporter.join()


def _watch_parent(pipeline: Pipeline) -> None:
    """The read ends when the parent does."""
    sys.stdin.buffer.read()
    pipeline.stop()


def _report(pipeline: Pipeline, registry: CollectorRegistry, ended: threading.Event) -> None:
    reported: dict[str, Health] | None = None
    metrics_due = 0.0
    while True:
        last = ended.wait(REPORT_SECONDS)
        now, health = time.monotonic(), pipeline.health()
        metrics = render(registry)[0].decode() if last or now >= metrics_due else None
        if metrics is not None:
            metrics_due = now + METRICS_SECONDS
        if metrics is not None or health != reported:
            reported = health
            try:
                _write_all(sys.stdout.fileno(), (Report(health, metrics).to_line() + "\n").encode())
            except BrokenPipeError:
                return
        if last:
            return


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    main()
