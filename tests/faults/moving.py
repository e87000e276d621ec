"""A process that moves a topic into its table without Spark, and can be killed: `python -m tests.faults.moving`.

It reads a pickled configuration from its standard input.
"""

from __future__ import annotations

import os
import pickle
import sys

from frazil.pipeline.move.leftovers import Leftovers
from tests.pipeline.support import move_all, tools_of

BATCH_ROWS = 40


def main() -> None:
    config = pickle.loads(sys.stdin.buffer.read())
    with tools_of(config, int(os.environ["SEED"])) as tools:
        Leftovers(tools).clean()
        move_all(tools, batch_rows=BATCH_ROWS)


if __name__ == "__main__":
    main()
