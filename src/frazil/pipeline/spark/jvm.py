"""Runs Spark's JVM as a child of this process.

PySpark can start a JVM by itself, but it passes all settings, even secrets, on the command line, and never stops it.
Here settings are passed in a private file, and the JVM is stopped with the session.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark.java_gateway import launch_gateway

from frazil.errors import SparkFailed
from frazil.pipeline.spark.callbacks import listen_for_callbacks
from frazil.pipeline.spark.jars import spark_home
from frazil.pipeline.spark.java import Java
from frazil.pipeline.spark.log_relay import LogRelay
from frazil.pipeline.spark.session_folder import SessionFolder
from frazil.pipeline.spark.settings import Master
from frazil.pipeline.spark.worker_python import worker_python

_STOP_SECONDS = 10.0
_NOTE = struct.Struct(">ii")
_ESCAPED = str.maketrans(
    {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!", " ": "\\ "}
)


class SparkJvm:
    """A running JVM. It ends when this process does, however that ends: its standard input is a pipe from here."""

    def __init__(self, process: subprocess.Popen[bytes], relay: LogRelay) -> None:
        self._process = process
        self._relay = relay
        self._gateway: JavaGateway | None = None

    @classmethod
    def start(cls, settings: Mapping[str, str], java: Java, folder: SessionFolder) -> SparkJvm:
        master = Master(settings["spark.master"])
        properties = folder.write("spark.properties", _properties(settings))
        note = folder.path / "gateway"
        home = _writable_home(folder) if master.is_local_cluster else spark_home()
        process = subprocess.Popen(
            [
                home / "bin" / "spark-submit",
                "--properties-file",
                properties,
                "--load-spark-defaults",
                "pyspark-shell",
            ],
            env=_environment(settings, java, home, master) | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(note)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Signals from the terminal (Ctrl-C, a hang-up) must not reach the JVM. It is stopped by this process,
            # after its work is done.
            start_new_session=True,
        )
        assert process.stdout is not None
        jvm = cls(process, LogRelay(process.stdout))
        try:
            jvm._gateway = jvm._connect(note)
        except BaseException:
            jvm.stop()
            raise
        finally:
            properties.unlink()
        return jvm

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def gateway(self) -> JavaGateway:
        assert self._gateway is not None
        return self._gateway

    def cause(self) -> str:
        """Returns the reason why the JVM ended, from its output."""
        return self._relay.cause()

    def give_back_memory(self) -> None:
        """Runs Java's garbage collector, after which the heap is only a little larger than its live objects."""
        self.gateway.jvm.java.lang.System.gc()

    def stop(self) -> None:
        if self._gateway is not None:
            with suppress(Py4JError, OSError):
                self._gateway.shutdown()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._relay.close()

    def _connect(self, note: Path) -> JavaGateway:
        while not note.exists():
            if not self.alive:
                raise SparkFailed(f"Spark did not start: {self.cause()}.")
            time.sleep(0.05)
        # The file has a port, then the length of a secret and the secret itself.
        told = note.read_bytes()
        (port, _), secret = _NOTE.unpack_from(told), told[_NOTE.size :].decode()
        note.unlink()
        with environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
        listen_for_callbacks(gateway)
        return gateway


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables for a while, because some of PySpark's settings can only be given this way."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def python_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that choose the Python of the workers: this one, unless the settings name another."""
    return {"PYSPARK_PYTHON": worker_python(settings), "PYSPARK_DRIVER_PYTHON": sys.executable}


def _environment(settings: Mapping[str, str], java: Java, home: Path, master: Master) -> dict[str, str]:
    result = dict(os.environ)
    given_home = result.get("SPARK_HOME")
    if given_home and "SPARK_CONF_DIR" not in result:
        # The configuration of another Spark may be used here, but its programs would not fit this PySpark.
        result["SPARK_CONF_DIR"] = str(Path(given_home) / "conf")
    result |= {"SPARK_HOME": str(home), "JAVA_HOME": str(java.home), "SPARK_CONNECT_MODE": "0"}
    # Workers must not import modules from the folder that they happen to be started in.
    result["PYTHONSAFEPATH"] = "1"
    if master.on_this_machine:
        result["SPARK_LOCAL_IP"] = "127.0.0.1"
    return result | python_variables(settings)


def _writable_home(folder: SessionFolder) -> Path:
    """Makes a Spark home of links, because the workers of a local cluster write their files into Spark's home."""
    home = folder.make("home")
    for entry in spark_home().iterdir():
        (home / entry.name).symlink_to(entry)
    return home


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{key.translate(_ESCAPED)}={value.translate(_ESCAPED)}\n" for key, value in settings.items())
