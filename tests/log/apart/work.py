"""What processes are given to do in these tests: functions of a module."""

from __future__ import annotations

import os
import signal
import time

import pyarrow as pa


def own_pid() -> int:
    return os.getpid()


def doubled(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table])


def fail(where: int) -> int:
    """Everywhere but in one process."""
    if os.getpid() != where:
        raise ArithmeticError("no such number")
    return where


def die_elsewhere(here: int) -> int:
    """Kills whoever does it, unless that is this process."""
    if os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
    return here


def sleep_elsewhere(here: int) -> int:
    if os.getpid() != here:
        time.sleep(60)
    return here
