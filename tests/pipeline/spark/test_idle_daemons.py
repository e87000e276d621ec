"""Tests that Spark's daemons without workers are ended, and that Spark goes on without them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.pipeline.spark.idle_daemons import LOOK_SECONDS, PATIENCE_SECONDS, IdleDaemons
from frazil.pipeline.spark.session import spark_jvm
from tests.faults.pipeline_fleet import children, command
from tests.log.support import ManualClock


def count(spark: SparkSession) -> int:
    def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return spark.range(10).mapInArrow(same, "id long").count()


def daemons(jvm: int) -> set[int]:
    return {each for each in children(jvm) if "-m frazil.pipeline.worker_daemon" in command(each)}


def wait_until(come: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not come():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_daemon_without_workers_is_ended_and_started_again_when_it_is_needed(spark: SparkSession) -> None:
    jvm, clock = spark_jvm().pid, ManualClock()
    # Other tests of the same session may have left some, one for each environment of their workers.
    wait_until(lambda: not any(children(each) for each in daemons(jvm)))
    for each in daemons(jvm):
        os.kill(each, signal.SIGTERM)
    wait_until(lambda: not daemons(jvm))
    assert count(spark) == 10
    (daemon,) = daemons(jvm)
    wait_until(lambda: not children(daemon))
    idle = IdleDaemons(jvm, clock)

    def pass_time(seconds: float) -> None:
        clock.advance(seconds)
        idle.end()

    pass_time(LOOK_SECONDS)
    pass_time(PATIENCE_SECONDS[b"frazil.pipeline.worker_daemon"] - LOOK_SECONDS)
    assert daemons(jvm) == {daemon}, "more may come"
    pass_time(LOOK_SECONDS)
    wait_until(lambda: not command(daemon))
    assert count(spark) == 10
    (another,) = daemons(jvm)
    assert another != daemon


def test_a_daemon_with_workers_stays(spark: SparkSession, tmp_path: Path) -> None:
    jvm, clock, go_on = spark_jvm().pid, ManualClock(), tmp_path / "go-on"

    def wait_for_it(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while not go_on.exists():
            time.sleep(0.01)
        yield from batches

    with ThreadPoolExecutor(1) as thread:
        counted = thread.submit(spark.range(10).mapInArrow(wait_for_it, "id long").count)
        wait_until(lambda: any(children(each) for each in daemons(jvm)))
        before, idle = daemons(jvm), IdleDaemons(jvm, clock)
        for _ in range(3):
            clock.advance(1000)
            idle.end()
        assert daemons(jvm) == before
        go_on.touch()
        assert counted.result(60) == 10


def test_a_daemon_that_is_still_starting_stays() -> None:
    named = ["-m", "pyspark.daemon"]
    starting = subprocess.Popen([sys.executable, "-c", "while True: pass", *named])
    resting = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *named])
    clock = ManualClock()
    idle = IdleDaemons(os.getpid(), clock)

    def is_ended() -> bool:
        clock.advance(LOOK_SECONDS)
        idle.end()
        return resting.poll() is not None

    try:
        wait_until(is_ended)
        assert resting.returncode == -signal.SIGTERM
        assert starting.poll() is None
    finally:
        for each in (starting, resting):
            each.kill()
            each.wait()
