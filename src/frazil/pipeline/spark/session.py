"""Starts and stops the Spark session, of which a process has one at a time."""

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
    """The folder, JVM and session of the running Spark of this process."""

    def __init__(self, folder: SessionFolder) -> None:
        self.folder = folder
        self.jvm: SparkJvm | None = None
        self.session: SparkSession | None = None


_running: _Running | None = None


def start_session(config: Config, *, name: str = "frazil", extra: Mapping[str, str] = _NOTHING) -> SparkSession:
    """Starts Spark. The settings in `extra` override all others."""
    global _running
    if _running is not None or SparkContext._active_spark_context is not None:
        raise SparkFailed("There is a Spark session in this process already; stop it first.")
    if not has_pandas():
        # PySpark requires pandas for every function over batches, but functions over Arrow batches do not need it.
        functions.require_minimum_pandas_version = _nothing_required  # type: ignore[attr-defined]
    # Py4J logs every connection that it closes at `info`.
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
        # The text of the error has to be fetched while the JVM is running.
        cause = first_line(error)
        stop_session()
        raise SparkFailed(f"Spark did not start: {cause}.") from error
    except BaseException:
        stop_session()
        raise
    return running.session


def _nothing_required() -> None:
    """Replaces PySpark's check of the version of pandas."""


def stop_session() -> None:
    """Stops Spark and its JVM, if they run. A session with other settings may be started afterwards."""
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
    # Otherwise PySpark would try to use the JVM that has ended.
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    running.folder.remove()


def session_folder() -> SessionFolder:
    """Returns the private folder of the session. It is removed after the session, even if this process is killed."""
    if _running is None:
        raise SparkFailed("There is no Spark session in this process.")
    return _running.folder


def spark_jvm() -> SparkJvm:
    """Returns the JVM of the session."""
    if _running is None or _running.jvm is None:
        raise SparkFailed("There is no Spark session in this process.")
    return _running.jvm


def first_line(error: BaseException) -> str:
    """Returns the first line of the root cause, without the stack traces of two languages."""
    if isinstance(error, Py4JJavaError):
        with suppress(Py4JError, OSError):
            cause = error.java_exception
            while cause.getCause() is not None:
                cause = cause.getCause()
            return _first_of(str(cause.toString()))
    return _first_of(str(error)) or type(error).__name__


def _first_of(text: str) -> str:
    """Returns the first line of a text, with the next ones as long as lines end with a colon."""
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
    """Restores the handler of Ctrl-C, which PySpark replaces when a context is made on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
