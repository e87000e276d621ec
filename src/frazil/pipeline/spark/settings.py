"""All settings of the Spark session: what Frazil needs, the lake's catalog, then what the user says."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from frazil.config.model import Config

_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"

# These hold lists: what the user adds stands beside what Frazil needs, not instead of it.
_LISTS = {
    "spark.sql.extensions": ",",
    "spark.jars": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.executor.extraClassPath": os.pathsep,
    _DRIVER_OPTIONS: " ",
    "spark.executor.extraJavaOptions": " ",
}

# The driver only conducts: 60 MiB of its objects live. Serial collections of a small young generation keep the heap
# near that (docs/decisions/0080); what Java's own code allocates is given back to the system every few seconds.
_SMALL_HEAP = (
    "-XX:+UseSerialGC",
    "-Xms48m",
    "-XX:NewRatio=4",
    "-XX:MinHeapFreeRatio=5",
    "-XX:MaxHeapFreeRatio=10",
    "-XX:-ShrinkHeapInSteps",
    # Of Java 17.0.9 and newer; it is no experiment from 21 on.
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
    """What `spark.master` means for this machine."""

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
    """Everything Spark is told; `folder` is the session's own and has what the settings name in it."""
    master = master_of(config, extra)
    ours = _defaults(master, name, folder) | _class_path(master, jars)
    if master.on_this_machine and not any(map(_chooses_collector, (config.pipeline.spark, extra))):
        ours = _merge(ours, {_DRIVER_OPTIONS: " ".join(_SMALL_HEAP)})
    return _merge(_merge(_merge(ours, catalog), config.pipeline.spark), extra)


def _chooses_collector(settings: Mapping[str, str]) -> bool:
    """Whether Java is told how to collect garbage: it refuses to be told twice."""
    return re.search(r"-XX:[+-]Use\w*GC\b", settings.get(_DRIVER_OPTIONS, "")) is not None


def _defaults(master: Master, name: str, folder: Path) -> dict[str, str]:
    # Spark's own files go where Java's do, unless `spark.local.dir` says otherwise.
    temporary = f'"-Djava.io.tmpdir={folder / "tmp"}"'
    driver = (
        temporary,
        f'"-Dlog4j2.configurationFile=file:{folder / "log4j2.properties"}"',
        f'"-Dderby.system.home={folder / "derby"}"',
        # A driver without memory is of no use to anybody: it goes, and is started again.
        "-XX:+ExitOnOutOfMemoryError",
    )
    settings = {
        "spark.master": master.url,
        "spark.app.name": name,
        "spark.driver.memory": "1g",
        _DRIVER_OPTIONS: " ".join(driver),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark keeps what a page would show, a thousand jobs and more, also where there is no page.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.ui.retainedExecutions": "20",
        # Hadoop sets permissions by itself, whatever the process was told.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A worker is forked in some milliseconds, and one that waits for its next task takes 60 to 130 MiB meanwhile.
        "spark.python.worker.reuse": "false",
        # Spark's own list does not know what catalogs call their credentials.
        "spark.redaction.regex": "(?i)secret|password|token|access[.-]?key|account[.-]?key|credential|sas",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file:{folder / 'pools.xml'}",
        # Iceberg reads with Hadoop's settings what it reads through Hadoop: local files, but not those of S3.
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        # Checkpoints are thrown away at every start, so their history is of no use.
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
            # Elsewhere, the installed PySpark may be another one than Spark's.
            "spark.python.daemon.module": "frazil.pipeline.worker_daemon",
        }
        # Spark's own ports ask for a secret, which it makes by itself unless there are several processes.
        settings["spark.authenticate"] = "true"
    if master.is_local_cluster:
        settings["spark.authenticate.secret"] = secrets.token_hex(32)
    if master.cores is not None:
        settings["spark.sql.shuffle.partitions"] = str(master.cores)
    return settings


def _class_path(master: Master, jars: Sequence[Path]) -> dict[str, str]:
    """Other machines are sent the jars; on this one, `spark.jars` would copy each of them at every start."""
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
