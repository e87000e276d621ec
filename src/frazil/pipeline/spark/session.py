"""The Spark session: one at a time in a process, with everything it needs found or fetched."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext, SparkFiles
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas import functions

from frazil.config.model import Config
from frazil.errors import SparkFailed
from frazil.footprint import has_pandas
from frazil.lake.catalog.spark import required_packages, spark_settings
from frazil.pipeline.spark.jars import Mirror, fetch_jars
from frazil.pipeline.spark.java import find_java
from frazil.pipeline.spark.jvm import SparkJvm, environment, python_variables
from frazil.pipeline.spark.log_relay import LOG4J
from frazil.pipeline.spark.session_folder import SessionFolder
from frazil.pipeline.spark.settings import FAIR_POOLS, session_settings

logger = logging.getLogger(__name__)

_NOTHING: Mapping[str, str] = {}


class _Running:
    """What belongs to the session of this process."""

    def __init__(self, folder: SessionFolder) -> None:
        self.folder = folder
        self.jvm: SparkJvm | None = None
        self.session: SparkSession | None = None


_running: _Running | None = None


def start_session(config: Config, *, name: str = "frazil", extra: Mapping[str, str] = _NOTHING) -> SparkSession:
    """Start Spark; `extra` are settings that win over all others."""
    global _running
    if _running is not None or SparkContext._active_spark_context is not None:
        raise SparkFailed("There is a Spark session in this process already; stop it first.")
    if not has_pandas():
        # PySpark asks for it before it takes any function over batches; those over Arrow's do without.
        functions.require_minimum_pandas_version = _nothing_required  # type: ignore[attr-defined]
    # It tells at `info` of every connection that it closes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    java = find_java()
    packages = required_packages(config)
    jars = fetch_jars(packages, logger.info, mirror=Mirror.of({**config.pipeline.spark, **extra}))
    running = _Running(SessionFolder())
    _running = running
    try:
        running.folder.make("tmp")
        running.folder.write("log4j2.properties", LOG4J)
        running.folder.write("pools.xml", FAIR_POOLS)
        settings = session_settings(
            config, spark_settings(config), extra, name=name, folder=running.folder.path, jars=jars
        )
        running.jvm = SparkJvm.start(settings, java, running.folder)
        with _own_interrupts(), environment(python_variables(settings)):
            context = SparkContext(gateway=running.jvm.gateway)
        running.session = SparkSession(context)
    except (Py4JError, PySparkException, OSError) as error:
        # The JVM has to be asked for the text while it is there.
        cause = first_line(error)
        stop_session()
        raise SparkFailed(f"Spark did not start: {cause}.") from error
    except BaseException:
        stop_session()
        raise
    return running.session


def _nothing_required() -> None:
    """There is no version of pandas too old for what makes no use of it."""


def stop_session() -> None:
    """Stop Spark and its JVM, if there are any; a session with other settings may be started afterwards."""
    global _running
    running, _running = _running, None
    if running is None:
        return
    if running.session is not None:
        paths = _files_folder()
        with suppress(Py4JError, OSError):
            running.session.stop()
        sys.path[:] = [path for path in sys.path if path != paths]
    if running.jvm is not None:
        running.jvm.stop()
    # PySpark would go on with the JVM that is gone.
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    running.folder.remove()


def session_folder() -> SessionFolder:
    """What is put there is private, and goes with the session, also when this process is killed."""
    if _running is None:
        raise SparkFailed("There is no Spark session in this process.")
    return _running.folder


def spark_jvm() -> SparkJvm:
    """The JVM of the session; a supervisor watches whether it is alive."""
    if _running is None or _running.jvm is None:
        raise SparkFailed("There is no Spark session in this process.")
    return _running.jvm


def first_line(error: BaseException) -> str:
    """What went wrong, without the stack traces of two languages."""
    if isinstance(error, Py4JJavaError):
        with suppress(Py4JError, OSError):
            cause = error.java_exception
            while cause.getCause() is not None:
                cause = cause.getCause()
            return _first_of(str(cause.toString()))
    return _first_of(str(error)) or type(error).__name__


def _first_of(text: str) -> str:
    """Its first line, with those that it announces."""
    said: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        said.append(line)
        if not line.endswith(":"):
            break
    return " ".join(said).rstrip(".")


def _files_folder() -> str | None:
    with suppress(Py4JError, OSError):
        return SparkFiles.getRootDirectory()
    return None


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """PySpark takes Ctrl-C over when a context is made on the main thread; our process has a plan for it already."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
