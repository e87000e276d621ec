"""Makes the settings of the Spark session: Frazil's defaults, the lake's catalog, then the user's settings."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from frazil.config.model import Config

_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"

# These settings are lists. The user's values are appended to Frazil's, and do not replace them.
_LISTS = {
    "spark.sql.extensions": ",",
    "spark.jars": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.executor.extraClassPath": os.pathsep,
    _DRIVER_OPTIONS: " ",
    "spark.executor.extraJavaOptions": " ",
}

# The driver only coordinates, so only 60 MiB of its objects are live. Serial collections of a small young generation
# keep the heap near that (docs/decisions/0080). Native memory of the JVM is returned to the system every few seconds.
_SMALL_HEAP = (
    "-XX:+UseSerialGC",
    "-Xms48m",
    "-XX:NewRatio=4",
    "-XX:MinHeapFreeRatio=5",
    "-XX:MaxHeapFreeRatio=10",
    "-XX:-ShrinkHeapInSteps",
    # The last option needs Java 17.0.9 or newer. From Java 21 on it is no longer experimental.
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:TrimNativeHeapInterval=10000",
)

FAIR_POOLS = """\
<allocations>
  <pool name="default"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""


class Master:
    """The meaning of `spark.master`: whether Spark runs on this machine, and with how many cores."""

    def __init__(self, url: str) -> None:
        self.url = url
        cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", url)
        local = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?", url)
        self.is_local_cluster = cluster is not None
        self.on_this_machine = cluster is not None or local is not None
        self.cores: int | None = None
        if cluster is not None:
            self.cores = int(cluster[1]) * int(cluster[2])
        elif local is not None:
            self.cores = _cores() if local[1] == "*" else int(local[1] or 1)


def _cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def master_of(config: Config, extra: Mapping[str, str]) -> Master:
    return Master(extra.get("spark.master") or config.pipeline.spark.get("spark.master") or "local[*]")


def session_settings(
    config: Config,
    catalog: Mapping[str, str],
    extra: Mapping[str, str],
    *,
    name: str,
    folder: Path,
    jars: Sequence[Path],
) -> dict[str, str]:
    """Returns all settings of the session. `folder` is the session's folder, which has the files that they name."""
    master = master_of(config, extra)
    ours = _defaults(master, name, folder) | _class_path(master, jars)
    if master.on_this_machine and not any(map(_chooses_collector, (config.pipeline.spark, extra))):
        ours = _merge(ours, {_DRIVER_OPTIONS: " ".join(_SMALL_HEAP)})
    return _merge(_merge(_merge(ours, catalog), config.pipeline.spark), extra)


def _chooses_collector(settings: Mapping[str, str]) -> bool:
    """Returns whether the settings choose a garbage collector. Java refuses to start with two choices."""
    return re.search(r"-XX:[+-]Use\w*GC\b", settings.get(_DRIVER_OPTIONS, "")) is not None


def _defaults(master: Master, name: str, folder: Path) -> dict[str, str]:
    # Spark writes its files to Java's temporary folder, unless `spark.local.dir` is set.
    temporary = f'"-Djava.io.tmpdir={folder / "tmp"}"'
    driver = (
        temporary,
        f'"-Dlog4j2.configurationFile=file:{folder / "log4j2.properties"}"',
        f'"-Dderby.system.home={folder / "derby"}"',
        # A driver that is out of memory cannot work, so it ends and is started again.
        "-XX:+ExitOnOutOfMemoryError",
    )
    settings = {
        "spark.master": master.url,
        "spark.app.name": name,
        "spark.driver.memory": "1g",
        _DRIVER_OPTIONS: " ".join(driver),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark keeps the data of its web pages, a thousand jobs and more, even without the web server.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.ui.retainedExecutions": "20",
        # Hadoop ignores the umask of the process and sets permissions itself.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # To fork a worker takes milliseconds. One that waits for its next task would hold 60 to 130 MiB meanwhile.
        "spark.python.worker.reuse": "false",
        # Spark's default does not include the names that catalogs have for credentials.
        "spark.redaction.regex": "(?i)secret|password|token|access[.-]?key|account[.-]?key|credential|sas",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file:{folder / 'pools.xml'}",
        # This applies to files that Iceberg reads through Hadoop: local files, but not those in S3.
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        # Checkpoints are removed at every start, so their history is not needed.
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
    }
    if master.on_this_machine:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.extraJavaOptions": temporary,
            # On other machines the installed PySpark may be another version than Spark's.
            "spark.python.daemon.module": "frazil.pipeline.worker_daemon",
        }
        # Spark's own ports require a secret. Spark generates it, unless there are several processes.
        settings["spark.authenticate"] = "true"
    if master.is_local_cluster:
        settings["spark.authenticate.secret"] = secrets.token_hex(32)
    if master.cores is not None:
        settings["spark.sql.shuffle.partitions"] = str(master.cores)
    return settings


def _class_path(master: Master, jars: Sequence[Path]) -> dict[str, str]:
    """Returns the settings that add the jars to the class path.

    `spark.jars` sends them to other machines. On this one it would copy each of them at every start.
    """
    if not jars:
        return {}
    if not master.on_this_machine:
        return {"spark.jars": ",".join(map(str, jars))}
    path = os.pathsep.join(map(str, jars))
    return {"spark.driver.extraClassPath": path, "spark.executor.extraClassPath": path}


def _merge(settings: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    merged = dict(settings)
    for key, value in over.items():
        separator = _LISTS.get(key)
        both = separator is not None and key in merged
        merged[key] = f"{merged[key]}{separator}{value}" if both else value
    return merged
