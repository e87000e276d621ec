"""A process with a Spark session that reads commands from its standard input.

Run it with `python -m tests.pipeline.spark_driver CONFIG EXTRA`. The commands are:

    job       runs a small job with Python workers; answers with what the workers saw
    stop      stops Spark; answers with what is left in the folder for temporary files
    interrupt waits for Ctrl-C; answers once it came

Each answer is one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.config.model import Config, LoggingConfig
from frazil.ops.logging import setup_logging
from frazil.pipeline.spark.session import spark_jvm, start_session, stop_session


def _where(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        # Each task takes a moment, so that no executor does the work of both.
        time.sleep(0.3)
        told = {
            "id": batch.column("id"),
            "pid": [os.getpid()] * len(batch),
            "parent": [os.getppid()] * len(batch),
            "folder": [os.getcwd()] * len(batch),
            "python": [sys.executable] * len(batch),
        }
        yield pa.RecordBatch.from_pydict(told)


def _job(spark: SparkSession) -> object:
    rows = spark.range(0, 8, 1, 4).mapInArrow(_where, "id long, pid long, parent long, folder string, python string")
    return [row.asDict() for row in rows.collect()]


def _answer(value: object) -> None:
    sys.stdout.write(f"{json.dumps(value)}\n")
    sys.stdout.flush()


def main() -> None:
    setup_logging(LoggingConfig(format="json"))
    # Processes in the background ignore Ctrl-C, and so do all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spark = start_session(Config.model_validate_json(sys.argv[1]), extra=json.loads(sys.argv[2]))
    _answer({"jvm": spark_jvm().pid, "java": spark._jvm.System.getProperty("java.version")})  # type: ignore[union-attr]
    for line in sys.stdin:
        match line.strip():
            case "job":
                _answer(_job(spark))
            case "interrupt":
                with suppress(KeyboardInterrupt):
                    _answer("waiting")
                    while True:
                        time.sleep(1)
                _answer("interrupted")
            case "stop":
                stop_session()
                _answer([path.name for path in Path(tempfile.gettempdir()).iterdir()])


if __name__ == "__main__":
    main()
