"""Tests which PySpark Spark's Python workers use, and what they do before every task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark

LOOK = """
import json, sys, zipimport
from frazil.pipeline.worker_daemon import forget_archives

def archives():
    return [path for path, found in sys.path_importer_cache.items() if isinstance(found, zipimport.zipimporter)]

before = archives()
forget_archives()
import pyspark
print(json.dumps({"before": before, "after": archives(), "path": sys.path, "pyspark": pyspark.__file__}))
"""


def test_workers_use_the_installed_pyspark_and_never_read_spark_s_archives(tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    archives = [*(home / "python" / "lib").glob("*.zip"), *(home / "jars").glob("spark-core_*.jar")]
    assert len(archives) == 3
    own = tmp_path / "of_the_user.zip"
    own.write_bytes(b"PK\x05\x06" + bytes(18))
    path = os.pathsep.join(map(str, [*archives, own]))
    said = subprocess.run(
        [sys.executable, "-c", LOOK], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True
    )
    seen = json.loads(said.stdout)
    assert {str(archive) for archive in archives} <= set(seen["before"]), "as Spark sets it up"
    assert seen["after"] == [str(own)], "what the user brings stays"
    assert not {str(archive) for archive in archives} & set(seen["path"])
    assert Path(seen["pyspark"]).parent == home
