"""Tests that Spark's output becomes log records."""

from __future__ import annotations

import io
import logging

import pytest

from frazil.pipeline.spark.log_relay import LogRelay

SAID = """\
WARNING: Using incubator modules: jdk.incubator.vector
WARN\tSparkEnv\tsomething to know
ERROR\tExecutor\tException in task 0.0 [DIVIDE_BY_ZERO] Division by zero
Traceback (most recent call last):
  File "worker.py", line 82, in worker
    raise EOFError
ERROR\tTaskSetManager\tTask 0 in stage 1.0 failed 1 times; aborting job
  File "worker.py", line 90, in worker
EOFError
a worker printed this
ERROR\tBlockManager\tno room
"""


def test_failures_that_are_told_elsewhere_are_only_for_those_who_look(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "frazil.spark")
    relay = LogRelay(io.BytesIO(SAID.encode()))
    relay.close()
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.levelno > logging.DEBUG]
    assert told == [
        ("WARNING", "something to know"),
        ("INFO", "a worker printed this"),
        ("ERROR", "no room"),
    ]
    hidden = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert hidden[0] == "Exception in task 0.0 [DIVIDE_BY_ZERO] Division by zero"
    assert hidden[-1] == "EOFError"


def test_why_the_jvm_ended_is_found_among_all_it_said() -> None:
    relay = LogRelay(
        io.BytesIO(b'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat a.b(c)\n')
    )
    assert relay.cause() == "Java heap space"
    relay.close()
