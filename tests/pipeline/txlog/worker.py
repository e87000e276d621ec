"""A process that writes to the transaction log until it is killed.

`python -m tests.pipeline.txlog.worker FOLDER write NAME` begins and commits batches without end and says on standard
output what it was promised; `hold` begins one batch and then waits; `recover` takes over what others left.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from pathlib import Path

from frazil.config.sections.pipeline import TransactionLogConfig
from frazil.pipeline.txlog.log import TransactionLog
from frazil.pipeline.txlog.recovery import recover
from tests.pipeline.txlog.support import send, start, succeed


def say(text: str) -> None:
    """Print with one write, so that a killed process leaves a whole line or none."""
    os.write(1, f"{text}\n".encode())


def write(log: TransactionLog, name: str, table: str) -> None:
    for turn in itertools.count():
        attempt = f"{name}-{turn}"
        start(log, attempt, table)
        say(f"{table} flushed {attempt}")
        send(log, attempt, turn + 1, table)
        say(f"{table} sent {attempt}")
        succeed(log, attempt, turn + 1, table)
        say(f"{table} done {attempt}")


def main(folder: Path, what: str, name: str) -> None:
    settings = TransactionLogConfig(checkpoint_interval_entries=7, max_log_files=3)
    with TransactionLog.open(folder, settings) as log:
        recover(log)
        say(f"slot {log.slot}")
        if what == "write":
            for table in ("lake.orders", "lake.users"):
                threading.Thread(target=write, args=(log, name, table), daemon=True).start()
        elif what == "hold":
            start(log, name)
            say("holding")
        if what != "recover":
            threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
