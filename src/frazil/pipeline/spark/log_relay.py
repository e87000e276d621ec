"""Relays the output of Spark's JVM to Frazil's log, one record per line. Spark logs warnings and worse only."""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from typing import IO

logger = logging.getLogger("frazil.spark")

_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
_REMEMBERED = 100

# Java prints this before any of its settings count, because Spark's launcher asks for that module.
_NOISE = "WARNING: Using incubator modules"

# Java prints these lines after the line that says what is wrong.
_SAYS_NOTHING = ("Error: Could not create the Java", "Error: A fatal exception has occurred", "\tat ", "at ")
_CAUSE = re.compile(r"Exception\b|Error\b")
_PREFIX = re.compile(r'^(Exception in thread "[^"]*" )?([\w.$]+(Exception|Error): )?')

# Each of these loggers warns of something that is intended here.
_QUIET = (
    "org.apache.hadoop.util.NativeCodeLoader",
    "org.apache.spark.sql.catalyst.util.SparkStringUtils",
    "org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream",
    # It warns of a late trigger, which happens whenever there is much to do.
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",
    # It warns of pools without settings. They are named after tables, which are not known in advance.
    "org.apache.spark.scheduler.FairSchedulableBuilder",
    # These two warn of jobs and processes of a query that was stopped.
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.hadoop.util.Shell",
    # It warns of daemons that were ended because they were idle.
    "org.apache.spark.api.python.PythonWorkerFactory",
)

# These loggers log an error at every try. The error also reaches the caller of the query, who logs it once.
_TOLD_ELSEWHERE = ("Executor", "TaskSetManager", "MicroBatchExecution")
_TRACE = "Traceback (most recent call last):"

LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.alwaysWriteExceptions = false
appender.out.layout.pattern = %level\\t%logger{1}\\t%replace{%msg %throwable{short.message}}{\\\\s+}{ }%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
""" + "".join(
    f"logger.quiet{number}.name = {name}\nlogger.quiet{number}.level = error\n" for number, name in enumerate(_QUIET)
)


class LogRelay:
    """Reads the JVM's output until it ends. If nobody read the pipe, the JVM would block once it is full."""

    def __init__(self, output: IO[bytes]) -> None:
        self._output = output
        self._last: deque[str] = deque(maxlen=_REMEMBERED)
        self._thread = threading.Thread(target=self._run, name="spark-log", daemon=True)
        self._thread.start()

    def cause(self) -> str:
        """Returns the line that explains best why the JVM ended."""
        self._thread.join(timeout=5)
        lines = [line for line in self._last if not line.startswith(_SAYS_NOTHING)]
        told = next((line for line in lines if _CAUSE.search(line)), lines[-1] if lines else "it said nothing")
        return _PREFIX.sub("", told).rstrip(".")

    def close(self) -> None:
        """Closes the pipe. It is called after the JVM has ended."""
        self._thread.join(timeout=5)
        self._output.close()

    def _run(self) -> None:
        in_trace = False
        for raw in self._output:
            line = raw.decode(errors="replace").rstrip()
            if not line or line.startswith(_NOISE):
                continue
            level, name, text = _parts(line)
            if not name:
                # The line is from a Python worker whose task failed or was ended. Lines of the JVM may be mixed in.
                if in_trace or line.startswith(_TRACE):
                    level = logging.DEBUG
                in_trace = line.startswith(_TRACE) or (in_trace and line.startswith(" "))
            self._last.append(text)
            logger.log(level, text, extra={"source": name} if name else None)


def _parts(line: str) -> tuple[int, str, str]:
    """Splits a line into level, logger and message. A line of a Python worker is all message."""
    parts = line.split("\t", 2)
    if len(parts) == 3 and parts[0] in _LEVELS:
        level = logging.DEBUG if parts[1] in _TOLD_ELSEWHERE else _LEVELS[parts[0]]
        return level, parts[1], parts[2].strip()
    return logging.INFO, "", line
