"""A process that moves a topic into its table without Spark, and can be killed.

Run it with `python -m tests.faults.mover_process`. It reads a pickled configuration from its standard input.
"""

from __future__ import annotations

import os
import pickle
import sys

from frazil.pipeline.move.attempt_cleanup import AttemptCleanup
from tests.pipeline.support import move_all, pipeline_context

BATCH_ROWS = 40


def main() -> None:
    config = pickle.loads(sys.stdin.buffer.read())
    with pipeline_context(config, int(os.environ["SEED"])) as context:
        AttemptCleanup(context).clean()
        move_all(context, batch_rows=BATCH_ROWS)


if __name__ == "__main__":
    main()
