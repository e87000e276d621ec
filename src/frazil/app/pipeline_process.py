"""The process that the pipeline runs in, a child of `frazil serve` or `frazil pipeline`.

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
from typing import NoReturn

from prometheus_client import CollectorRegistry
from pyspark.logger import PySparkLogger

from frazil.config.model import Config
from frazil.errors import FrazilError
from frazil.maintain.metrics import MaintenanceMetrics
from frazil.maintain.scheduler import Scheduler
from frazil.ops.health import Health
from frazil.ops.logging import setup_logging
from frazil.ops.metrics import render
from frazil.pipeline.pipeline import Pipeline
from frazil.pipeline.process_messages import PipelineReport, settings_from

REPORT_SECONDS = 1.0
METRICS_SECONDS = 5.0


_ERRORS_OF_QUERIES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""These loggers of PySpark write the stack traces of errors that PySpark also raises."""


def main() -> NoReturn:
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
        run(config)
    except FrazilError as error:
        # The last report told the parent, which logs it.
        code = error.exit_code
    sys.stdout.flush()
    os._exit(code)


def build_pipeline(config: Config, registry: CollectorRegistry) -> Pipeline:
    """Returns a pipeline that also runs maintenance on its schedule."""
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
    """Stop the pipeline when the parent ends, which ends standard input."""
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
                _write_all(sys.stdout.fileno(), (PipelineReport(health, metrics).to_line() + "\n").encode())
            except BrokenPipeError:
                return
        if last:
            return


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    main()
