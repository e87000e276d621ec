"""Appends to a disk of two megabytes until it is full, makes room, and goes on.

Run it with `unshare --user --map-root-user --mount python -m tests.faults.full_disk FOLDER SYNC`. The disk is a tmpfs
that only this process sees.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from frazil.errors import DiskFull
from frazil.log.writer.writer import PartitionWriter
from frazil.store.local import LocalStore
from tests.log.support import crash, ids, reader, rows, writer

ROWS = 1000


def fill(w: PartitionWriter, acknowledged: list[int]) -> None:
    while True:
        first = len(acknowledged)
        assert w.append(rows(first, ROWS)).offset == first
        acknowledged += range(first, first + ROWS)


def fill_up(store: LocalStore, w: PartitionWriter, acknowledged: list[int]) -> None:
    with pytest.raises(DiskFull, match="no room on the disk"):
        fill(w, acknowledged)
    assert ids(reader(store, w).read(0)) == acknowledged


def main(folder: Path, sync: str) -> None:
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
    store = LocalStore(folder / "store")
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    acknowledged: list[int] = []

    w = writer(store, disk, sync=sync, max_file_bytes=300_000)
    fill_up(store, w, acknowledged)
    fill_up(store, w, acknowledged)
    ballast.unlink()
    before = len(acknowledged)
    fill_up(store, w, acknowledged)
    assert len(acknowledged) > before, "appends go on when somebody makes room"

    before = len(acknowledged)
    w.seal_all()
    w._dropping.result()
    fill_up(store, w, acknowledged)
    assert len(acknowledged) > before, "and when sealing makes room"

    crash(w)
    subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
    again = writer(store, disk, sync=sync, max_file_bytes=300_000)
    assert ids(reader(store, again).read(0)) == acknowledged, "and after a crash everything acknowledged is there"
    again.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
