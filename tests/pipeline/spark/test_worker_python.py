"""Tests the Python that Spark's workers run in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.pipeline.spark.cache_folder import VARIABLE
from frazil.pipeline.spark.worker_python import worker_python

HERE = {"spark.master": "local[2]"}


def path_in(python: str, path: str) -> list[str]:
    """Returns Python's path in a process that is started with this `PYTHONPATH`."""
    command = [python, "-S", "-c", "import sys; print(sys.executable, *sys.path, sep=chr(10))"]
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_archives_of_spark_are_not_on_its_path(tmp_path: Path) -> None:
    python = worker_python(HERE, {VARIABLE: str(tmp_path)})
    assert Path(python).is_relative_to(tmp_path)
    spark = (
        "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:/spark/jars/spark-core_2.13-4.1.1.jar"
    )
    executable, *found = path_in(python, f"{spark}:/mine/a b:{tmp_path}/*:/mine/lib.zip")
    assert executable == sys.executable
    assert found[:3] == ["/mine/a b", f"{tmp_path}/*", "/mine/lib.zip"]
    assert not [each for each in found if each.startswith("/s/")]
    assert path_in(python, "") == path_in(sys.executable, "")


@pytest.mark.parametrize(
    ("settings", "environ", "chosen"),
    [
        ({**HERE, "spark.pyspark.python": "/other/python"}, {"PYSPARK_PYTHON": "/no"}, "/other/python"),
        (HERE, {"PYSPARK_PYTHON": "/other/python"}, "/other/python"),
        ({"spark.master": "spark://elsewhere:7077"}, {}, sys.executable),
        (HERE, {VARIABLE: "/dev/null/cache"}, sys.executable),
    ],
)
def test_another_is_named_or_needed(settings: dict[str, str], environ: dict[str, str], chosen: str) -> None:
    assert worker_python(settings, environ) == chosen
