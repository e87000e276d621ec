from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.errors import DiskFull, LogBroken
from frazil.log.wal.recovery import ScannedWal
from frazil.store.local import LocalStore
from tests.faults.disk_limits import largest_file
from tests.log.support import crash, ids, newest_wal, reader, rows, writer


@pytest.mark.parametrize("sync", ["always", "periodic"])
def test_a_disk_that_is_really_full(tmp_path: Path, sync: str) -> None:
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "tests.faults.full_disk"]
    done = subprocess.run([*command, str(tmp_path), sync], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("room", [0, 3, 8, 50, 500])
def test_a_frame_that_stops_in_the_middle_leaves_nothing(local_store: LocalStore, tmp_path: Path, room: int) -> None:
    w = writer(local_store, tmp_path)
    w.append(rows(0, 10))
    size = ScannedWal(newest_wal(tmp_path)).clean_bytes
    with largest_file(size + room), pytest.raises(DiskFull):
        w.append(rows(10, 1000))
    assert newest_wal(tmp_path).stat().st_size == size
    assert w.append(rows(10, 10)).offset == 10
    crash(w)
    again = writer(local_store, tmp_path)
    assert ids(reader(local_store, again).read(0)) == list(range(20))
    again.close()


def test_no_room_for_a_new_file_is_an_error_that_passes(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path, max_file_bytes=1)
    w.append(rows(0, 10))
    with largest_file(100), pytest.raises(DiskFull):
        w.append(rows(10, 10))
    assert w.append(rows(10, 10)).offset == 10
    crash(w)
    again = writer(local_store, tmp_path)
    assert ids(reader(local_store, again).read(0)) == list(range(20))
    again.close()


def fail(_: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("sync", ["always", "periodic"])
def test_after_a_failed_sync_nothing_is_acknowledged_until_the_files_are_read_again(
    local_store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str
) -> None:
    w = writer(local_store, tmp_path, sync=sync)
    w.append(rows(0, 10))
    with monkeypatch.context() as failing_disk:
        failing_disk.setattr(
            "os.fdatasync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error"))
        )
        with pytest.raises(LogBroken, match="Restart to read them back"):
            w.append(rows(10, 10)) if sync == "always" else w.sync()
    with pytest.raises(LogBroken):
        w.append(rows(20, 10))
    assert isinstance(w.stopped, LogBroken)
    crash(w)
    again = writer(local_store, tmp_path, sync=sync)
    found = ids(reader(local_store, again).read(0))
    assert found[:10] == list(range(10))
    assert found in (list(range(10)), list(range(20))), "what was not acknowledged is there or not, but whole"
    again.close()
