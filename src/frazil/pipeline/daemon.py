"""The process that Spark's Python workers are forked from: `spark.python.daemon.module`.

Spark's own brings PySpark from an archive, whose directory Python reads again before every task, and each worker
imports everything by itself and looks through all of it for garbage after every task. Here PySpark is the installed
one, what tasks need is imported once, and none of it is ever garbage. A task costs a quarter of a second less.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path


def main() -> None:
    for path in filter(_archive_of_spark, list(sys.path)):
        sys.path.remove(path)
        sys.path_importer_cache.pop(path, None)
    from pyspark import daemon

    import frazil.pipeline.rows.private
    import frazil.pipeline.source
    import frazil.pipeline.tasks
    import frazil.pipeline.transform  # noqa: F401

    gc.collect()
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]


def _archive_of_spark(path: str) -> bool:
    name = Path(path).name
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith(".zip"))


if __name__ == "__main__":
    main()
