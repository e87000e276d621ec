from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from frazil.log.apart import process, wire
from frazil.log.apart.process import Apart
from tests.log.apart import work


@pytest.fixture(autouse=True)
def tests_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a process that looks into no folder by itself."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


@pytest.fixture
def apart() -> Iterator[Apart]:
    started = Apart()
    try:
        until(lambda: is_ready(started))
        yield started
    finally:
        started.close()


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def is_ready(apart: Apart) -> bool:
    apart.start()
    return apart.pid is not None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_is_done_in_another_process_once_there_is_one() -> None:
    apart = Apart()
    assert apart.run(work.own_pid) == os.getpid(), "nobody waits until it has started"
    until(lambda: is_ready(apart))
    pid = apart.pid
    assert pid is not None
    assert apart.run(work.own_pid) == apart.run(work.own_pid) == pid != os.getpid()
    apart.close()
    assert not is_alive(pid)
    assert apart.run(work.own_pid) == os.getpid()
    assert apart.pid is None


def test_values_come_back_as_they_were(apart: Apart) -> None:
    """Of any size: more than fits into a pipe at once, and nothing at all."""
    table = pa.table(
        {
            "number": pa.array(np.arange(500_000)),
            "text": pa.array([None if i % 7 == 0 else f"row {i}" for i in range(500_000)]),
            "map": pa.array([[("key", str(i))] * (i % 3) for i in range(500_000)], pa.map_(pa.string(), pa.string())),
        }
    )
    for given in (table, table.slice(10, 5), table.slice(0, 0), pa.table({})):
        found = apart.run(work.doubled, given)
        assert found.equals(work.doubled(given))
        found.validate(full=True)


def test_many_columns_are_many_buffers(apart: Apart) -> None:
    """More of them than one call of the system takes."""
    table = pa.table({f"column-{number}": [number, None] for number in range(1500)})
    assert apart.run(work.doubled, table).equals(work.doubled(table))


def test_what_fails_there_fails_here(apart: Apart) -> None:
    with pytest.raises(ArithmeticError, match="no such number"):
        apart.run(work.fail, 0)
    assert apart.run(work.fail, os.getpid()) == os.getpid(), "it is done here"
    assert apart.run(work.own_pid) == apart.pid, "and nothing is wrong with the other"


def test_what_it_dies_of_is_done_here_and_there_is_another_afterwards(apart: Apart) -> None:
    before = apart.pid
    assert apart.run(work.die_elsewhere, os.getpid()) == os.getpid()
    assert apart.pid is None
    until(lambda: is_ready(apart))
    assert apart.run(work.own_pid) == apart.pid != before


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), pa.ArrowMemoryError("malloc of size 8 failed")])
def test_no_answer_is_taken_for_that_to_another_question(
    apart: Apart, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def fail(_: object) -> None:
        raise failure

    with monkeypatch.context() as broken:
        broken.setattr(wire, "receive", fail)
        if isinstance(failure, Exception):
            assert apart.run(work.doubled, pa.table({"a": [1]})).num_rows == 2
        else:
            with pytest.raises(KeyboardInterrupt):
                apart.run(work.doubled, pa.table({"a": [1]}))
    for _ in range(2):
        until(lambda: is_ready(apart))
        assert apart.run(work.own_pid) == apart.pid


def test_one_that_cannot_be_started_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = Apart()
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", "no-such-python")
        for _ in range(3):
            assert apart.run(work.own_pid) == os.getpid()
            assert apart.started, "it is not tried again and again"
    apart._not_before = 0.0
    until(lambda: is_ready(apart))
    apart.close()


def test_where_many_files_are_open() -> None:
    apart = Apart()
    apart.start()
    assert apart._connection is not None
    low = apart._connection
    apart._connection = socket.socket(fileno=fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 2000))
    apart._connection.settimeout(60)
    low.close()
    until(lambda: is_ready(apart))
    assert apart.run(work.own_pid) == apart.pid
    apart.close()


def test_work_does_not_wait_long_for_its_turn(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TURN_SECONDS", 0.01)
    with apart._lock:
        assert apart.run(work.own_pid) == os.getpid()
    assert apart.run(work.own_pid) == apart.pid


def test_one_that_says_nothing_is_ended(apart: Apart) -> None:
    before = apart.pid
    assert before is not None
    assert apart._connection is not None
    apart._connection.settimeout(0.2)
    assert apart.run(work.sleep_elsewhere, os.getpid()) == os.getpid()
    assert not is_alive(before)


def test_it_does_not_outlive_who_started_it() -> None:
    script = (
        "import sys, time\n"
        "from frazil.log.apart.process import Apart\n"
        "apart = Apart()\n"
        "while apart.pid is None:\n"
        "    apart.start()\n"
        "    time.sleep(0.01)\n"
        "print(apart.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    until(lambda: not is_alive(pid))
