"""Tests that Spark starts with what this machine has, behaves as a child process, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from frazil.config.model import Config
from frazil.errors import SparkFailed
from frazil.pipeline.spark.session import first_line
from tests.pipeline.spark.fake_java import write_fake_java
from tests.pipeline.spark.open_ports import LOOPBACK, is_gateway, is_of_spark, is_of_workers, is_page, listeners
from tests.servers.shared import NessieServer
from tests.servers.spark import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GONE_SECONDS = 30.0


class Driver:
    """A process with a Spark session (see `spark_driver`)."""

    def __init__(self, folder: Path, extra: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> None:
        self.work = folder / "work"
        self.temporary = folder / "tmp"
        self.work.mkdir()
        self.temporary.mkdir()
        config = Config(data_dir=folder / "data")
        told = {**SHORT_LIVED, **extra}
        self._log = folder / "log"
        root = Path(__file__).parents[3]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "tests.pipeline.spark_driver",
                    config.model_dump_json(),
                    json.dumps(told),
                ],
                cwd=self.work,
                env={**environ, "TMPDIR": str(self.temporary), "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        started = self._answer()
        self.jvm: int = started["jvm"]
        self.java: str = started["java"]

    def tell(self, order: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return self._answer()

    def press_ctrl_c(self) -> Any:
        os.killpg(self._process.pid, signal.SIGINT)
        return self._answer()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def log(self) -> list[str]:
        return self._log.read_text().splitlines()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The process ends when its standard input is closed, if it is not in the middle of something.
        try:
            self._process.communicate(timeout=_GONE_SECONDS)
        finally:
            self._process.kill()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        return json.loads(line)


def _descendants(pid: int) -> set[int]:
    table = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in table.splitlines()]
    found = {pid}
    while more := {child for child, parent in parents if parent in found} - found:
        found |= more
    return found


def _running(pids: Iterable[int]) -> set[int]:
    listed = ",".join(map(str, pids))
    table = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-p", listed], capture_output=True, text=True, check=False
    ).stdout
    # A zombie has ended. Its new parent has only not waited for it yet.
    return {int(line.split()[0]) for line in table.splitlines() if not line.split()[1].startswith("Z")}


def _wait_until_gone(pids: set[int]) -> set[int]:
    until = time.monotonic() + _GONE_SECONDS
    while (left := _running(pids)) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def test_what_an_error_says_first() -> None:
    assert first_line(ValueError("\n It failed: \n\n the worker: \n no module.\n\tat java.lang")) == (
        "It failed: the worker: no module"
    )
    assert first_line(ValueError()) == "ValueError"


@pytest.mark.xdist_group("own-jvm")
def test_on_the_java_of_the_package_and_through_ctrl_c(tmp_path: Path) -> None:
    old = write_fake_java(tmp_path / "old" / "bin", version=11)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ["PATH"] = f"{old.parent}{os.pathsep}{environ['PATH']}"
    with Driver(tmp_path, {"spark.some.secret": "hush"}, environ) as driver:
        assert driver.java.startswith("21.")
        foreign = driver.work / "socket.py"
        foreign.write_text("raise SystemExit('a module of somebody else')")
        rows = driver.tell("job")
        assert sorted(row["id"] for row in rows) == list(range(8))
        assert {row["python"] for row in rows} == {sys.executable}
        command = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(driver.jvm)], capture_output=True, check=True)
        assert b"PythonGatewayServer" in command.stdout or b"pyspark-shell" in command.stdout
        assert b"hush" not in command.stdout
        assert not [path for path in driver.temporary.rglob("*") if path.name == "spark.properties"]

        driver.tell("interrupt")
        assert driver.press_ctrl_c() == "interrupted"
        assert len(driver.tell("job")) == 8

        family = _descendants(driver.jvm)
        assert len(family) >= 2, "the JVM, and a daemon of its workers"
        assert driver.tell("stop") == []
        assert _wait_until_gone(family) == set()
        assert list(driver.work.iterdir()) == [foreign]
        assert driver.log() == []


@pytest.mark.xdist_group("own-jvm")
def test_a_local_cluster_has_a_secret_and_dies_with_its_killed_driver(tmp_path: Path) -> None:
    with Driver(tmp_path, {"spark.master": "local-cluster[2,1,1024]"}) as driver:
        rows = driver.tell("job")
        assert {Path(row["folder"]).name for row in rows} == {"0", "1"}, "each executor has a folder named by its id"
        assert all(Path(row["folder"]).is_relative_to(driver.temporary) for row in rows)
        assert len({row["parent"] for row in rows}) == 2
        family = _descendants(driver.jvm)
        assert len(family) >= 5, "driver, two executors, and a daemon of each"
        found = listeners(driver.jvm)
        assert {each.address for each in found} <= set(LOOPBACK), found
        daemons = [each.port for each in found if "frazil.pipeline.worker_daemon" in each.commands]
        java = [each.port for each in found if each.port not in daemons]
        assert all(map(is_of_workers, daemons)), daemons
        open_to_all = [port for port in java if not (is_of_spark(port) or is_gateway(port))]
        assert len(java) - len(open_to_all) >= 7, "the gateway, the master, two workers, the driver, and executors"
        assert all(map(is_page, open_to_all)), open_to_all
        driver.kill()
        assert _wait_until_gone(family) == set()
        assert len(list(driver.temporary.glob("frazil-spark-*"))) == 1
    _sweep(driver.temporary)
    assert list(driver.temporary.glob("frazil-spark-*")) == []


def _sweep(temporary: Path) -> None:
    """Makes and removes a session's folder, as the next start does."""
    code = "from frazil.pipeline.spark.session_folder import SessionFolder; SessionFolder().remove()"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(temporary)}, check=True)


def test_tables_of_the_lake_are_written_and_read(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE NAMESPACE frazil.{namespace}")
    spark.sql(f"CREATE TABLE frazil.{namespace}.t (id BIGINT, at TIMESTAMP) USING iceberg")
    spark.sql(f"INSERT INTO frazil.{namespace}.t VALUES (1, TIMESTAMP '2026-01-01 00:00:00')")
    (row,) = spark.sql(
        f"SELECT id, CAST(at AS STRING) AS at, unix_seconds(at) AS s FROM frazil.{namespace}.t"
    ).collect()
    assert (row.id, row.at, row.s) == (1, "2026-01-01 00:00:00", 1_767_225_600)


def test_a_session_on_another_lake(
    spark_for: Callable[[Config], SparkSession], nessie: NessieServer, namespace: str, tmp_path: Path
) -> None:
    session = spark_for(Config(data_dir=tmp_path, lake=nessie.config(namespace)))
    session.sql(f"CREATE NAMESPACE frazil.{namespace}")
    session.sql(f"CREATE TABLE frazil.{namespace}.t USING iceberg AS SELECT id FROM range(10)")
    assert session.table(f"frazil.{namespace}.t").count() == 10
    located = session.sql(f"SELECT file_path FROM frazil.{namespace}.t.files").first()
    assert located is not None
    assert located.file_path.startswith("s3://frazil/warehouse/")


def test_there_is_one_session_at_a_time(spark: SparkSession, spark_config: Config) -> None:
    from frazil.pipeline.spark.session import start_session

    with pytest.raises(SparkFailed, match="already"):
        start_session(spark_config)
    assert spark.range(3).count() == 3


def test_settings_of_the_user_count(own_spark: Callable[..., SparkSession], tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    config = Config.model_validate(
        {"data_dir": tmp_path, "pipeline": {"spark": {"spark.driver.memory": "600m", "spark.master": "local[1]"}}}
    )
    spark = own_spark(config, {"spark.app.name": "mine"})
    assert signal.getsignal(signal.SIGINT) is before
    assert spark.sparkContext.appName == "mine"
    assert spark.sparkContext.defaultParallelism == 1
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
    assert spark._jvm is not None
    assert spark._jvm.Runtime.getRuntime().maxMemory() <= 600 << 20


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("spark.master", "nonsense", "Master must either be yarn or start with"),
        ("spark.driver.memory", "nonsense", "-Xmxnonsense"),
        ("spark.scheduler.mode", "nonsense", "spark.scheduler.mode"),
    ],
)
def test_what_keeps_spark_from_starting_is_said(
    own_spark: Callable[..., SparkSession], tmp_path: Path, setting: str, value: str, said: str
) -> None:
    with pytest.raises(SparkFailed, match=said) as caught:
        own_spark(Config(data_dir=tmp_path), {setting: value})
    assert str(caught.value).startswith("Spark did not start: ")
    assert len(str(caught.value).splitlines()) == 1
