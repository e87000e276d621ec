"""Damaged, torn, empty and foreign WAL files: each has a defined outcome."""

from __future__ import annotations

import errno
import logging
import os
import random
import stat
import struct
import zlib
from pathlib import Path

import pytest

from frazil.disk.files import Watermark
from frazil.errors import LogBroken, LogCorrupted, LogVersionUnsupported, PartitionLocked
from frazil.framefile import frames
from frazil.log.positions import Origin
from frazil.log.wal.recovery import ScannedWal, wal_files
from frazil.store.local import LocalStore
from tests.log.support import Machine, crash, cut_zeros, ids, newest_wal, reader, rows, wal_of, writer


def frame_starts(path: Path) -> list[int]:
    view = memoryview(path.read_bytes())
    return [frame.start for frame in frames.scan(view) if isinstance(frame, frames.Frame)]


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 0x10
    path.write_bytes(data)


def abandoned(store: LocalStore, folder: Path, appends: int = 3) -> Path:
    """Make a WAL with a few appends of ten rows, left by a killed writer."""
    first = writer(store, folder)
    for i in range(appends):
        first.append(rows(i * 10, 10))
    crash(first)
    return cut_zeros(newest_wal(folder))


def forget_watermark(folder: Path, offset: int) -> None:
    mark = Watermark(wal_of(folder), writable=True)
    mark.offset = offset
    mark.close()


def test_a_killed_writer_goes_on_where_it_was(local_store: LocalStore, tmp_path: Path) -> None:
    abandoned(local_store, tmp_path)
    again = writer(local_store, tmp_path)
    assert again.append(rows(30, 5)).offset == 30
    assert ids(reader(local_store, again).read(0)) == list(range(35))
    again.close()


@pytest.mark.parametrize("zeros", [0, 1000])
def test_a_torn_end_is_cut_off_and_said(
    local_store: LocalStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, zeros: int
) -> None:
    path = abandoned(local_store, tmp_path)
    with path.open("ab") as file:
        file.write(path.read_bytes()[frame_starts(path)[-1] :][:50])
        file.write(bytes(zeros))
    with caplog.at_level(logging.WARNING):
        again = writer(local_store, tmp_path)
    assert "torn end" in caplog.text
    assert ids(reader(local_store, again).read(0)) == list(range(30))
    again.close()


def test_any_cut_of_the_file_is_a_torn_end_or_a_stop_but_never_a_silent_loss(
    local_store: LocalStore, tmp_path: Path, seed: int
) -> None:
    path = abandoned(local_store, tmp_path)
    whole = path.read_bytes()
    first_records = frame_starts(path)[1]
    rng = random.Random(seed)
    for cut in sorted(rng.sample(range(first_records, len(whole)), 25)):
        path.write_bytes(whole[:cut])
        with pytest.raises(LogCorrupted, match="records up to 30 were acknowledged"):
            writer(local_store, tmp_path)
    path.write_bytes(whole)
    writer(local_store, tmp_path).close()


def test_a_cut_that_only_took_unacknowledged_records_is_a_torn_end(local_store: LocalStore, tmp_path: Path) -> None:
    path = abandoned(local_store, tmp_path)
    forget_watermark(tmp_path, 20)
    path.write_bytes(path.read_bytes()[:-4])
    again = writer(local_store, tmp_path)
    assert again.next_offset == 20
    again.close()


def test_every_flipped_bit_stops_the_start_and_names_file_and_byte(
    local_store: LocalStore, tmp_path: Path, seed: int
) -> None:
    path = abandoned(local_store, tmp_path, appends=6)
    whole = path.read_bytes()
    starts = frame_starts(path)
    rng = random.Random(seed)
    for byte in rng.sample(range(len(whole)), 40):
        path.write_bytes(whole)
        flip(path, byte)
        with pytest.raises(LogCorrupted) as caught:
            writer(local_store, tmp_path)
        start = max(s for s in starts if s <= byte)
        assert str(path) in str(caught.value)
        assert f"byte {start}" in str(caught.value)
        assert "frazil log repair" in str(caught.value)
        assert path.stat().st_size == len(whole), "nothing is changed"


def test_damage_in_an_older_file_stops_the_start(local_store: LocalStore, tmp_path: Path) -> None:
    first = writer(local_store, tmp_path, max_file_bytes=1)
    for i in range(4):
        first.append(rows(i * 10, 10))
    crash(first)
    oldest = wal_files(wal_of(tmp_path))[0]
    flip(oldest, oldest.stat().st_size - 5)
    with pytest.raises(LogCorrupted, match=oldest.name):
        writer(local_store, tmp_path)


def test_a_missing_file_in_the_middle_stops_the_start(local_store: LocalStore, tmp_path: Path) -> None:
    first = writer(local_store, tmp_path, max_file_bytes=1)
    for i in range(4):
        first.append(rows(i * 10, 10))
    crash(first)
    wal_files(wal_of(tmp_path))[1].unlink()
    with pytest.raises(LogCorrupted, match="does not go on from there"):
        writer(local_store, tmp_path)


def test_an_empty_file_stops_the_start(local_store: LocalStore, tmp_path: Path) -> None:
    path = abandoned(local_store, tmp_path)
    path.write_bytes(b"")
    with pytest.raises(LogCorrupted, match="the file is empty"):
        writer(local_store, tmp_path)


def test_a_file_of_a_newer_version_stops_the_start(local_store: LocalStore, tmp_path: Path) -> None:
    path = abandoned(local_store, tmp_path)
    data = bytearray(path.read_bytes())
    start, end = frame_starts(path)[1:3]
    data[start + 6] = frames.VERSION + 1
    data[end - 4 : end] = zlib.crc32(data[start : end - 4]).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(LogVersionUnsupported, match="newer version of Frazil"):
        writer(local_store, tmp_path)


def test_a_leftover_draft_of_a_file_is_removed(local_store: LocalStore, tmp_path: Path) -> None:
    path = abandoned(local_store, tmp_path)
    draft = path.with_name(f"{30:020d}.new")
    draft.write_bytes(b"half a hea")
    again = writer(local_store, tmp_path)
    assert again.next_offset == 30
    assert not draft.exists()
    again.close()


def test_a_second_writer_is_kept_out_and_told_who_is_in(local_store: LocalStore, tmp_path: Path) -> None:
    first = writer(local_store, tmp_path)
    with pytest.raises(PartitionLocked, match="in use by process"):
        writer(local_store, tmp_path)
    first.close()
    writer(local_store, tmp_path).close()


def test_rotation_keeps_every_record_and_a_prefilled_rest_is_no_damage(
    local_store: LocalStore, tmp_path: Path
) -> None:
    first = writer(local_store, tmp_path, sync="always", max_file_bytes=4096)
    for i in range(50):
        first.append(rows(i * 10, 10))
    assert len(wal_files(wal_of(tmp_path))) > 5
    crash(first)
    again = writer(local_store, tmp_path, sync="always", max_file_bytes=4096)
    assert ids(reader(local_store, again).read(0)) == list(range(500))
    again.close()


class TestReboot:
    """Records that were not synced may be gone after a reboot."""

    def test_a_hole_before_what_was_synced_is_damage(self, local_store: LocalStore, tmp_path: Path) -> None:
        machine = Machine()
        first = writer(local_store, tmp_path, machine, sync="none")
        first.append(rows(0, 10))
        first.sync()
        first.append(rows(10, 10))
        crash(first)
        path = newest_wal(tmp_path)
        data = bytearray(path.read_bytes())
        start = frame_starts(path)[1]
        data[start : start + 64] = bytes(64)
        path.write_bytes(data)
        machine.reboot()
        with pytest.raises(LogCorrupted, match="whole frames follow"):
            writer(local_store, tmp_path, machine, sync="none")

    def test_a_hole_in_what_was_never_synced_is_a_torn_end(self, local_store: LocalStore, tmp_path: Path) -> None:
        machine = Machine()
        first = writer(local_store, tmp_path, machine, sync="none")
        for i in range(3):
            first.append(rows(i * 10, 10))
        crash(first)
        path = newest_wal(tmp_path)
        data = bytearray(path.read_bytes())
        start = frame_starts(path)[2]
        data[start : start + 64] = bytes(64)
        path.write_bytes(data)
        with pytest.raises(LogCorrupted):
            writer(local_store, tmp_path, machine, sync="none")
        machine.reboot()
        again = writer(local_store, tmp_path, machine, sync="none")
        assert again.next_offset == 10
        assert len(again.tail.epochs.history) == 2
        again.close()

    @pytest.mark.parametrize("sync", ["periodic", "none"])
    def test_starts_a_new_epoch_at_the_sealed_end_and_keeps_what_is_there(
        self, local_store: LocalStore, tmp_path: Path, sync: str
    ) -> None:
        machine = Machine()
        first = writer(local_store, tmp_path, machine, sync=sync)
        first.append(rows(0, 10))
        first.seal()
        first.append(rows(10, 10))
        before = first.tail.epochs
        crash(first)
        machine.reboot()
        again = writer(local_store, tmp_path, machine, sync=sync)
        assert again.tail.epochs.history[:-1] == before.history
        assert again.tail.epochs.current_start == 10
        assert again.append(rows(20, 1)).offset == 20
        again.seal()
        assert ids(reader(local_store, again).read(0)) == list(range(21))
        again.close()

    def test_changes_nothing_with_always_or_after_a_clean_stop(self, local_store: LocalStore, tmp_path: Path) -> None:
        machine = Machine()
        first = writer(local_store, tmp_path, machine, sync="always")
        first.append(rows(0, 10))
        epochs = first.tail.epochs
        crash(first)
        machine.reboot()
        second = writer(local_store, tmp_path, machine, sync="periodic")
        second.append(rows(10, 10))
        second.close()
        machine.reboot()
        third = writer(local_store, tmp_path, machine, sync="periodic")
        assert third.tail.epochs == epochs
        third.close()


def test_a_new_file_counts_from_the_moment_it_has_its_name(
    local_store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the folder cannot be synced after that, nothing more is written until the files are read again."""
    w = writer(local_store, tmp_path)
    w.append(rows(0, 3))
    with monkeypatch.context() as failing_disk:
        failing_disk.setattr("frazil.framefile.writer.sync_file", _fail_for_folders)
        with pytest.raises(LogBroken):
            w._committer.rotate()
    with pytest.raises(LogBroken):
        w.append(rows(3, 2))
    crash(w)
    again = writer(local_store, tmp_path)
    assert again.append(rows(3, 2)).offset == 3
    again.close()


def _fail_for_folders(descriptor: int) -> None:
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise OSError(errno.EMFILE, "Too many open files")
    os.fsync(descriptor)


def test_a_kill_right_after_recovery_from_a_power_cut_is_no_damage(local_store: LocalStore, tmp_path: Path) -> None:
    machine = Machine()
    w = writer(local_store, tmp_path, machine, sync="periodic")
    w.append(rows(0, 3))
    w.sync()
    w.append(rows(3, 3))
    crash(w)
    path = newest_wal(tmp_path)
    path.write_bytes(path.read_bytes()[: frame_starts(path)[-1]])
    machine.reboot()
    crash(writer(local_store, tmp_path, machine, sync="periodic"))
    again = writer(local_store, tmp_path, machine, sync="periodic")
    assert again.next_offset == 3
    again.close()


def test_a_torn_value_that_looks_like_a_frame_is_no_damage(local_store: LocalStore, tmp_path: Path) -> None:
    path = abandoned(local_store, tmp_path)
    older = path.read_bytes()[frame_starts(path)[1] : frame_starts(path)[2]]
    with path.open("ab") as file:
        file.write(struct.pack("<I2sBB", 8 * len(older), b"FZ", 1, 2) + older)
    again = writer(local_store, tmp_path)
    assert again.next_offset == 30
    again.close()


def test_large_positions_do_not_make_every_append_a_file(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path, max_file_bytes=50_000)
    for i in range(2000):
        w.append(rows(i, 1), Origin(request=i.to_bytes(16, "little")))
    for i in range(20):
        w.append(rows(i, 1))
    assert len(wal_files(wal_of(tmp_path))) < 40
    w.close()


def test_scanning_changes_nothing(local_store: LocalStore, tmp_path: Path) -> None:
    path = abandoned(local_store, tmp_path)
    with path.open("ab") as file:
        file.write(b"torn")
    before = path.read_bytes()
    scanned = ScannedWal(path)
    assert scanned.flaw
    assert scanned.end == 30
    assert path.read_bytes() == before
