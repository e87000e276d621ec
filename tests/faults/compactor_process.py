"""A process that compacts a table without Spark, and can be killed.

Run it with `python -m tests.faults.compactor_process`. It reads a pickled configuration from its standard input.
"""

from __future__ import annotations

import pickle
import sys

from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.catalog.lake import Lake
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.maintained_tables import find_maintained_tables
from frazil.maintain.operations import run_operation
from frazil.maintain.rewrite.tasks import rewrite_here
from tests.maintain.support import maintenance_context


def main() -> None:
    config = pickle.loads(sys.stdin.buffer.read())
    lake = Lake(config)
    (target,) = find_maintained_tables(lake, config)
    report = run_operation(maintenance_context(lake), Compaction(CompactionConfig(), rewrite_here), target)
    assert report.outcome in {"done", "nothing"}, report.work.note


if __name__ == "__main__":
    main()
