"""Files are read back after they were cut, torn or damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import LogVersionUnsupported, TransactionLogDamaged
from frazil.framefile import frames
from frazil.pipeline.txlog.entries import Entry, decode
from frazil.pipeline.txlog.file import ScannedTxlog, files, slot_folder
from frazil.pipeline.txlog.log import TransactionLog
from frazil.pipeline.txlog.slot import Slot
from frazil.pipeline.txlog.state import State
from tests.examples import examples
from tests.log.support import Machine
from tests.pipeline.txlog.support import attempts, crash, newest, opened, send, start, succeed

TABLES = ("lake.orders", "lake.users")
Step = Callable[[TransactionLog], None]


def steps() -> st.SearchStrategy[list[Step]]:
    """Draw steps of a pipeline in any order, also in ones that make no sense."""
    attempt = st.sampled_from("abc")
    table = st.sampled_from(TABLES)
    step: st.SearchStrategy[Step] = st.one_of(
        st.builds(lambda a, t: lambda log: start(log, a, t), attempt, table),
        st.builds(lambda a, t, s: lambda log: send(log, a, s, t), attempt, table, st.integers(1, 9)),
        st.builds(lambda a, t, s: lambda log: succeed(log, a, s, t), attempt, table, st.integers(1, 9)),
        st.builds(
            lambda a, t, r: lambda log: log.commit_end("orders", t, a, success=False, reason="no", retry=r),
            attempt,
            table,
            st.booleans(),
        ),
        st.builds(
            lambda a, t: lambda log: log.flush_end("orders", t, a, snapshot_id=None, files_created=0), attempt, table
        ),
        st.builds(lambda p, o: lambda log: log.offset_marker("örders", p, o, 1), st.integers(0, 2), st.integers(0)),
        st.builds(lambda text: lambda log: log.maintenance_op("expiry", "t", {text: text}), st.text()),
        st.just(TransactionLog.checkpoint),
    )
    return st.lists(step, max_size=12)


def summed(entries: list[Entry]) -> State:
    state = State()
    for entry in entries:
        state.apply(entry)
    return state


@settings(max_examples=examples(40), deadline=None)
@given(done=steps(), lives=st.integers(1, 3), data=st.data())
def test_a_log_cut_anywhere_knows_what_stands_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory, done: list[Step], lives: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("txlog")
    for life in range(lives):
        log = opened(folder)
        for step in done[life::lives]:
            step(log)
        before = log._slot.state
        crash(log)
        log = opened(folder)
        assert log._slot.state == before
        crash(log)
    path = newest(folder)
    whole = ScannedTxlog(path)
    cut = data.draw(st.integers(_first_frame(path), path.stat().st_size))
    with path.open("r+b") as file:
        file.truncate(cut)
    kept = ScannedTxlog(path).entries
    assert kept == whole.entries[: len(kept)]
    with opened(folder) as again:
        assert again._slot.state == summed(kept)
        assert all(ScannedTxlog(each).flaw is None for each in files(slot_folder(folder, 0)))


def _first_frame(path: Path) -> int:
    frame = frames.read_frame(memoryview(path.read_bytes()), 0)
    assert isinstance(frame, frames.Frame)
    return frame.end


def test_cut_at_every_byte(tmp_path: Path) -> None:
    log = opened(tmp_path / "whole")
    start(log, "a")
    send(log, "a")
    succeed(log, "a")
    start(log, "b")
    crash(log)
    path = newest(tmp_path / "whole")
    data = path.read_bytes()
    first = _first_frame(path)
    seen = []
    folder = tmp_path / "cut"
    shutil.copytree(tmp_path / "whole", folder)
    cut_file = newest(folder)
    for cut in range(len(data) + 1):
        cut_file.write_bytes(data[:cut])
        if cut < first:
            with pytest.raises(TransactionLogDamaged, match=r"0\.txlog is damaged at byte 0"):
                slot_of(folder)
            continue
        again = opened(folder)
        state = (attempts(again), [bool(each.requests) for each in again.open_attempts()])
        if state not in seen:
            seen.append(state)
        crash(again)
        for later in files(slot_folder(folder, 0)):
            if later != cut_file:
                later.unlink()
    assert seen == [([], []), (["a"], [False]), (["a"], [True]), (["b"], [False])]


def slot_of(folder: Path, machine: Machine | None = None) -> Slot:
    return Slot(folder, 0, (machine or Machine()).boot, max_files=4)


def filled(folder: Path, machine: Machine) -> list[int]:
    """Make a log of several entries. Return the bytes at which they begin."""
    log = opened(folder, machine)
    start(log, "a")
    send(log, "a")
    for offset in range(3):
        log.offset_marker("orders", 0, offset, 1)
    crash(log)
    view = memoryview(newest(folder).read_bytes())
    return [frame.start for frame in frames.scan(view) if isinstance(frame, frames.Frame)]


def damage(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 0xFF
    path.write_bytes(data)


def test_damage_in_the_middle_is_told_with_file_and_byte(tmp_path: Path) -> None:
    machine = Machine()
    begins = filled(tmp_path, machine)
    path = newest(tmp_path)
    damage(path, begins[2] + 20)
    before = path.read_bytes()
    with pytest.raises(TransactionLogDamaged) as caught:
        slot_of(tmp_path, machine)
    assert caught.value.exit_code == 5
    assert f"{path} is damaged at byte {begins[2]}: " in str(caught.value)
    assert path.read_bytes() == before, "nothing is changed"


def test_after_a_reboot_pages_that_were_not_synced_may_be_missing(tmp_path: Path) -> None:
    machine = Machine()
    begins = filled(tmp_path, machine)
    damage(newest(tmp_path), begins[4] + 20)
    shutil.copytree(tmp_path, tmp_path / "synced")
    machine.reboot()
    with opened(tmp_path, machine) as log:
        assert attempts(log) == ["a"]
        assert log.last_offsets()["orders", 0].offset == 0, "the markers after it were never synced"

    damage(newest(tmp_path / "synced"), begins[1] + 20)
    with pytest.raises(TransactionLogDamaged, match=f"damaged at byte {begins[1]}"):
        slot_of(tmp_path / "synced", machine)


@pytest.mark.parametrize("tail", [b"\0" * 64, b"\xff" * 64, b"x"])
def test_rubbish_at_the_end_is_cut_off(tmp_path: Path, tail: bytes, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, Machine())
    path = newest(tmp_path)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(tail)
    with opened(tmp_path) as log:
        assert attempts(log) == ["a"]
    assert path.stat().st_size == size
    assert "cut off the torn end of a transaction log file" in caplog.text


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, Machine())
    with newest(tmp_path).open("ab") as file:
        file.write(b"".join(frames.encode(99, [b"{}"]).parts))
    with pytest.raises(LogVersionUnsupported, match="unknown kind of entry 99"):
        opened(tmp_path)


def test_an_entry_tolerates_what_it_does_not_know() -> None:
    body = b'{"number":1,"time_ms":2,"topic":"a","partition":0,"offset":5,"record_count":5,"colour":"red"}   '
    entry, synced_to = decode(32, memoryview(body))
    assert (entry.number, synced_to) == (1, 0)
    for wrong, told in ((b"{}", "kind OffsetMarker"), (b"[]", "kind OffsetMarker"), (b"no", "Expecting value")):
        with pytest.raises(ValueError, match=told):
            decode(32, memoryview(wrong))
