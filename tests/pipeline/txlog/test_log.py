from __future__ import annotations

import threading
from pathlib import Path

import pytest

from frazil.errors import CheckpointFailed, DiskFull, LogBroken, ShutdownError
from frazil.lake.commit.proposals import CommitRequest
from frazil.pipeline.txlog.entries import Checkpoint, CommitEnd, FlushStart
from frazil.pipeline.txlog.file import ScannedTxlog, files, slot_folder
from frazil.pipeline.txlog.log import Outcome
from frazil.pipeline.txlog.show import history
from tests.faults.disk_limits import largest_file
from tests.log.support import Machine
from tests.pipeline.txlog.support import RANGES, attempts, crash, newest, opened, send, start, succeed


def test_a_batch_from_start_to_end_leaves_nothing_open(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.offset_marker("orders", 0, 20, 10)
        start(log, "a")
        (attempt,) = log.open_attempts()
        assert (attempt.ranges, attempt.requests) == (RANGES, ())
        send(log, "a", 7)
        (attempt,) = log.open_attempts()
        assert attempt.requests == (CommitRequest(7, 6, 1),)
        succeed(log, "a", 7)
        assert log.open_attempts() == []
        log.flush_end("orders", "lake.orders", "a", snapshot_id=7, files_created=2)
        log.maintenance_op("expiry", "lake.orders", {"snapshots": 3})
        commit = log.last_commits()["lake.orders"]
        assert (commit.attempt, commit.snapshot_id, commit.ranges) == ("a", 7, RANGES)
    with opened(tmp_path) as again:
        assert again.open_attempts() == []
        assert again.last_commits() == {"lake.orders": commit}
        assert again.last_offsets()["orders", 0].offset == 20


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_open_is_open_after_a_restart(tmp_path: Path, clean: bool) -> None:
    log = opened(tmp_path)
    start(log, "flushed")
    start(log, "sent")
    send(log, "sent", 7)
    log.commit_end("orders", "lake.orders", "sent", success=False, reason="conflict", retry=True)
    send(log, "sent", 9)
    start(log, "failed")
    log.commit_end("orders", "lake.orders", "failed", success=False, reason="the table changed")
    before = log.open_attempts()
    assert [each.attempt for each in before] == ["flushed", "sent"]
    assert before[1].requests == (CommitRequest(7, 6, 1), CommitRequest(9, 8, 1))
    log.close() if clean else crash(log)
    with opened(tmp_path) as again:
        assert again.open_attempts() == before
        again.resolve(before[0], Outcome(False, "it never sent a request"))
        again.resolve(before[1], Outcome(True, "found in the table", 9))
        assert again.open_attempts() == []
        assert again.last_commits()["lake.orders"].snapshot_id == 9


def test_one_attempt_may_write_to_two_tables(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        start(log, "a")
        start(log, "a", table="lake.orders_dlq")
        send(log, "a")
        succeed(log, "a")
        assert [each.table for each in log.open_attempts()] == ["lake.orders_dlq"]


def test_a_commit_without_a_flush_is_open_too(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        send(log, "empty")
        assert log.open_attempts()[0].ranges == ()
        log.flush_end("orders", "lake.orders", "empty", snapshot_id=None, files_created=0)
        assert log.open_attempts() == []


def test_checkpoints_by_count_bound_the_disk(tmp_path: Path) -> None:
    with opened(tmp_path, checkpoint_interval_entries=10, max_log_files=3) as log:
        start(log, "open all the time")
        for offset in range(500):
            log.offset_marker("orders", offset % 4, offset, 1)
        kept = files(slot_folder(tmp_path, 0))
        assert len(kept) == 3
        assert sum(path.stat().st_size for path in kept) < 20_000
    with opened(tmp_path) as again:
        assert attempts(again) == ["open all the time"]
        assert {key[1]: last.offset for key, last in again.last_offsets().items()} == {0: 496, 1: 497, 2: 498, 3: 499}


def test_checkpoints_by_time_and_by_size(tmp_path: Path) -> None:
    machine = Machine()
    with opened(tmp_path, machine, checkpoint_interval_seconds=60, max_file_size_mb=1) as log:
        log.offset_marker("orders", 0, 1, 1)
        machine.clock.advance(59)
        log.offset_marker("orders", 0, 2, 1)
        assert len(files(log._slot.folder)) == 1
        machine.clock.advance(1)
        log.offset_marker("orders", 0, 3, 1)
        assert len(files(log._slot.folder)) == 2
        log.maintenance_op("compaction", "lake.orders", {"files": "x" * (1 << 20)})
        assert len(files(log._slot.folder)) == 3


def test_idle_restarts_push_no_history_out(tmp_path: Path) -> None:
    with opened(tmp_path, max_log_files=2) as log:
        start(log, "a")
    for _ in range(5):
        opened(tmp_path, max_log_files=2).close()
        crash(opened(tmp_path, max_log_files=2))
    told = [each.entry for each in history(tmp_path).entries]
    assert [type(entry) for entry in told] == [Checkpoint, FlushStart, Checkpoint]
    assert [entry.number for entry in told] == [0, 1, 2]


def test_many_threads_write_whole_entries(tmp_path: Path) -> None:
    with opened(tmp_path, checkpoint_interval_entries=50, max_log_files=1000) as log:

        def work(topic: str) -> None:
            for turn in range(25):
                log.flush_start(topic, topic, str(turn), record_count=1, batch_size=1, ranges=RANGES)
                log.commit_start(topic, topic, str(turn), CommitRequest(turn, turn - 1, turn))
                log.commit_end(topic, topic, str(turn), success=True, snapshot_id=turn)

        threads = [threading.Thread(target=work, args=(f"topic{number}",)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.open_attempts() == []
        assert {commit.snapshot_id for commit in log.last_commits().values()} == {24}
    numbers = sorted(told.entry.number for told in history(tmp_path).entries)
    assert numbers == list(range(len(numbers)))
    assert sum(isinstance(told.entry, CommitEnd) for told in history(tmp_path).entries) == 150


def test_what_must_be_on_disk_is_synced_before_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as log:
        synced: list[int] = []
        monkeypatch.setattr("frazil.framefile.writer.sync_data", lambda fd: synced.append(log._slot.next_number))
        log.offset_marker("orders", 0, 1, 1)
        assert synced == []
        start(log, "a")
        send(log, "a")
        succeed(log, "a")
        log.flush_end("orders", "lake.orders", "a", snapshot_id=7, files_created=1)
        assert synced == [3, 4], "FlushStart is entry 2, CommitStart entry 3"


@pytest.mark.parametrize("room", [0, 3, 8, 50, 100])
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, room: int) -> None:
    log = opened(tmp_path)
    start(log, "stored")
    size = newest(tmp_path).stat().st_size
    with largest_file(size + room), pytest.raises(DiskFull, match="no room on the disk"):
        start(log, "not stored")
    assert newest(tmp_path).stat().st_size == size
    assert attempts(log) == ["stored"]
    with largest_file(100), pytest.raises(CheckpointFailed, match="no room on the disk"):
        log.checkpoint()
    assert list(tmp_path.rglob("*.new")) == []
    send(log, "stored")
    crash(log)
    assert ScannedTxlog(newest(tmp_path)).flaw is None
    with opened(tmp_path) as again:
        assert attempts(again) == ["stored"]
        assert again.open_attempts()[0].requests


def test_a_checkpoint_that_fails_does_not_fail_the_entry_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, checkpoint_interval_entries=2) as log:
        in_the_way = slot_folder(tmp_path, 0) / f"{3:020d}.new"
        in_the_way.mkdir()
        start(log, "a")
        start(log, "b")
        assert "no checkpoint of the transaction log" in caplog.text
        assert attempts(log) == ["a", "b"]
        assert len(files(slot_folder(tmp_path, 0))) == 1
        in_the_way.rmdir()
        start(log, "c")
        assert len(files(slot_folder(tmp_path, 0))) == 2
    with opened(tmp_path) as again:
        assert attempts(again) == ["a", "b", "c"]


def test_after_a_failed_sync_nothing_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    log = opened(tmp_path)
    with monkeypatch.context() as failing:
        failing.setattr("frazil.framefile.writer.sync_data", fail)
        with pytest.raises(LogBroken, match="Restart to read them back"):
            start(log, "a")
    with pytest.raises(LogBroken):
        start(log, "b")
    assert log.broken
    with pytest.raises(LogBroken):
        log.close()
    with opened(tmp_path) as again:
        assert attempts(again) == ["a"], "the process lives, so what it wrote is there"


def test_a_closed_log_says_so(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.close()
    log.close()
    with pytest.raises(ShutdownError, match="is closed"):
        start(log, "a")
