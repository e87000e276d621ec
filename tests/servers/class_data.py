"""An archive of the classes that Spark loads, which its JVM maps at every start instead of parsing them again.

It halves the CPU time of a start. `python -m tests.servers.jars` makes it once for this environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

from frazil.config.model import Config
from frazil.pipeline.spark.jars import fetch_jars
from tests.servers.jars import AWS, say

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""The compiler that makes code fast in the long run takes half of the time of a short one."""

_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""A JVM that cannot use the archive, because it is another Java or has another class path, goes on without a word."""

_LIFE = "tests.servers.class_data"
_STOP_SECONDS = 600.0


def use_archive() -> None:
    """Has every Spark that this process or its children start use the archive, if there is one.

    The archive is for one class path, so what only some tests need stands at the end of that of all.
    """
    (aws,) = fetch_jars([AWS], say)
    archive = f"-XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else ""
    os.environ["SPARK_DIST_CLASSPATH"] = str(aws)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK_COMPILER} {_QUIET} {archive}".rstrip()
    os.environ["SPARK_LAUNCHER_OPTS"] = QUICK_COMPILER


def make_archive() -> None:
    """Makes the archive, if there is none, of the classes that a short life of Spark loads."""
    if ARCHIVE.exists():
        return
    say("making an archive of Spark's classes (once; a minute)")
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        draft = Path(folder) / ARCHIVE.name
        use_archive()
        options = f"{os.environ['SPARK_SUBMIT_OPTS']} -XX:ArchiveClassesAtExit={draft}"
        subprocess.run(
            [sys.executable, "-m", _LIFE, folder], env=os.environ | {"SPARK_SUBMIT_OPTS": options}, check=True
        )
        if draft.exists():
            draft.rename(ARCHIVE)
        else:
            say("this Java makes no such archive: tests go without it")


def _live(folder: Path) -> None:
    """Starts Spark, does a little of all that tests do, and gives the JVM the time to write its archive."""
    from frazil.pipeline.spark.session import start_session, stop_session

    spark = start_session(Config(data_dir=folder / "data"))
    spark.sql("CREATE NAMESPACE frazil.life")
    spark.sql("CREATE TABLE frazil.life.rows (id BIGINT, name STRING) USING iceberg")
    for number in range(2):
        spark.sql(f"INSERT INTO frazil.life.rows VALUES ({number}, 'a')")
    spark.sql(
        "CALL frazil.system.rewrite_data_files(table => 'frazil.life.rows', options => map('min-input-files', '2'))"
    )
    spark.sql("SELECT name, count(*) FROM frazil.life.rows GROUP BY name ORDER BY name").collect()
    spark.range(10).mapInArrow(lambda batches: batches, "id long").collect()
    query = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .load()
        .writeStream.foreachBatch(lambda rows, _: rows.write.format("noop").mode("append").save())
        .trigger(availableNow=True)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    query.awaitTermination()
    with patch("frazil.pipeline.spark.jvm._STOP_SECONDS", _STOP_SECONDS):
        stop_session()


if __name__ == "__main__":
    _live(Path(sys.argv[1]))
