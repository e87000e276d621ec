"""Several pipelines share one data folder and are killed in every way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from frazil.errors import RecoveryFailed
from frazil.failpoints import VARIABLE
from frazil.pipeline.txlog.log import Outcome
from frazil.pipeline.txlog.recovery import recover
from tests.pipeline.txlog.support import attempts, crash, newest, opened, send, start


class Worker:
    """Runs `worker.py` as a process, and collects what it prints."""

    def __init__(self, folder: Path, what: str, name: str, failpoint: str = "") -> None:
        self.lines: list[str] = []
        self._said = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.txlog.worker", str(folder), what, name],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, VARIABLE: failpoint},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as stdout:
            for line in stdout:
                with self._said:
                    self.lines.append(line.rstrip("\n"))
                    self._said.notify_all()

    def wait_for(self, lines: int) -> None:
        with self._said:
            assert self._said.wait_for(lambda: len(self.lines) >= lines, 60), "the process said nothing"

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        code = self.process.wait(60)
        self._reader.join()
        return code

    @property
    def slot(self) -> int:
        return int(self.lines[0].removeprefix("slot "))


def test_two_processes_never_share_a_slot(tmp_path: Path) -> None:
    first = Worker(tmp_path, "hold", "a")
    second = None
    try:
        first.wait_for(2)
        second = Worker(tmp_path, "hold", "b")
        second.wait_for(2)
        assert (first.slot, second.slot) == (0, 1)
        with opened(tmp_path) as log:
            assert log.slot == 2
            assert recover(log) == [], "what a living process does is its own business"
    finally:
        first.kill()
        if second:
            second.kill()
    with opened(tmp_path) as log:
        assert log.slot == 0
        assert attempts(log) == ["a"]
        assert [each.attempt for each in recover(log)] == ["a", "b"]
    with opened(tmp_path) as first_again, opened(tmp_path) as second_again:
        assert attempts(first_again) == ["a", "b"]
        assert (second_again.slot, attempts(second_again)) == (1, [])


@pytest.mark.parametrize("step", ["read", "absorbed", "emptied"])
def test_killed_while_taking_over_nothing_is_lost(tmp_path: Path, step: str) -> None:
    ours, theirs = opened(tmp_path), opened(tmp_path)
    start(ours, "a")
    start(theirs, "b")
    send(theirs, "b")
    crash(ours)
    crash(theirs)
    worker = Worker(tmp_path, "recover", "x", failpoint=f"txlog.takeover.{step}")
    assert worker.wait() == -signal.SIGKILL
    with opened(tmp_path) as log:
        assert [(each.attempt, bool(each.requests)) for each in recover(log)] == [("a", False), ("b", True)]
        for attempt in log.open_attempts():
            log.resolve(attempt, Outcome(False, "looked into the table"))
        assert recover(log) == []


def test_what_was_moved_is_not_moved_again(tmp_path: Path) -> None:
    ours, theirs = opened(tmp_path), opened(tmp_path)
    start(theirs, "b")
    crash(theirs)
    (attempt,) = recover(ours)
    ours.resolve(attempt, Outcome(True, "it is in the table", 7))
    assert recover(ours) == []
    ours.close()
    with opened(tmp_path) as again:
        assert recover(again) == []
        assert again.last_commits()["lake.orders"].snapshot_id == 7


def test_a_damaged_slot_keeps_no_other_from_being_taken_over(tmp_path: Path) -> None:
    logs = [opened(tmp_path) for _ in range(3)]
    for number, log in enumerate(logs):
        start(log, f"a{number}")
        crash(log)
    newest(tmp_path, slot=1).write_bytes(b"rubbish, and long enough to be a frame")
    with opened(tmp_path) as log:
        with pytest.raises(RecoveryFailed, match=r"00001/0+\.txlog is damaged at byte 0"):
            recover(log)
        assert attempts(log) == ["a0", "a2"]


def test_a_pipeline_goes_on_beside_a_damaged_slot(tmp_path: Path) -> None:
    log = opened(tmp_path)
    start(log, "a")
    crash(log)
    harmed = newest(tmp_path)
    harmed.write_bytes(b"rubbish, and long enough to be a frame")
    with opened(tmp_path) as log:
        assert log.slot == 1
        start(log, "b")
        with pytest.raises(RecoveryFailed) as told:
            recover(log)
        assert attempts(log) == ["b"]
        # As it is printed, and without a restart.
        subprocess.run(str(told.value).partition("run: ")[2], shell=True, check=True)
        assert [each.attempt for each in recover(log)] == ["b"]
    assert not harmed.exists()


def run_lives(folder: Path, lives: int, rng: random.Random) -> None:
    """Kill the writer again and again: the next one must know everything that was stored."""
    for life in range(lives):
        worker = Worker(folder, "write", f"life{life}")
        worker.wait_for(rng.randrange(1, 200))
        worker.kill()
        promised: dict[str, tuple[str, str]] = {}
        for line in worker.lines[1:]:
            table, step, attempt = line.split()
            promised[table] = (step, attempt)
        with opened(folder) as log:
            known = {each.table: each for each in recover(log)}
            for table, (step, attempt) in promised.items():
                check(step, attempt, known.get(table), log.last_commits().get(table))
            for each in known.values():
                log.resolve(each, Outcome(False, "looked into the table"))


def check(step: str, attempt: str, left: object, commit: object) -> None:
    """Check that the entry that was printed last is known, or the one right after it."""
    is_open = getattr(left, "attempt", None) == attempt
    if step == "flushed":
        assert is_open or getattr(commit, "attempt", None) == attempt
    elif step == "sent":
        assert getattr(commit, "attempt", None) == attempt or (is_open and bool(getattr(left, "requests", ())))
    else:
        assert getattr(commit, "attempt", None) == attempt
        assert not is_open


def test_a_few_kills(tmp_path: Path, seed: int) -> None:
    run_lives(tmp_path, 5, random.Random(seed))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_hundred_kills(tmp_path: Path, seed: int) -> None:
    run_lives(tmp_path, 100, random.Random(seed))
