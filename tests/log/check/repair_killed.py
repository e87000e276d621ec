"""Kills a repair before each change to the file system, runs it again, and checks that nothing is missing."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from frazil.errors import LogCorrupted
from tests.log.check.wal_cases import (
    APPENDS,
    ROWS,
    SEALED,
    flip,
    opened,
    problems,
    repaired,
    repairing,
    stored,
    surveyed,
    wal_directory,
)

CHANGES = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}
ALL = list(range(APPENDS * ROWS))


def killed_at(folder: Path, step: int) -> bool:
    """Run the repair in a child that dies before change number `step`. Return False when it came to its end."""
    child = os.fork()
    if child == 0:
        left = step

        def before(event: str, args: tuple[object, ...]) -> None:
            nonlocal left
            if event in CHANGES and str(folder) in str(args[0]):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        with repairing(folder) as repair:
            plan = repair.plan()
            sys.addaudithook(before)
            repair.apply(plan)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status != 0


def harm(folder: Path, case: str) -> list[int]:
    """Return the records that must be there after the repair."""
    if case == "damaged":
        harmed = surveyed(folder).records[3]
        flip(harmed.path, harmed.frame.start + 20)
        return [i for i in ALL if not harmed.entry.offset <= i < harmed.entry.end]
    for path in (folder / "data/store/queue/orders/00000").glob("*.parquet"):
        path.unlink()
    return ALL[SEALED * ROWS :]


def opens_whole_or_not_at_all(folder: Path, expected: list[int]) -> None:
    """Open a writer before the repair is run again."""
    try:
        with opened(folder) as log:
            log.writer("orders", partition=0)
    except LogCorrupted:
        return
    assert stored(folder) == expected


def locations(folder: Path) -> list[int]:
    """Return the records of all partitions. A new partition may have been claimed twice, but is filled once."""
    found: list[int] = []
    with opened(folder) as log:
        partitions = log.partitions("orders")
    for partition in partitions:
        found += stored(folder, partition)
    return found


def main(sound: Path, work: Path, case: str) -> int:
    step = 1
    while True:
        folder = work / f"step-{step}"
        shutil.copytree(sound, folder)
        expected = harm(folder, case)
        originals = {path.name: path.read_bytes() for path in wal_directory(folder).glob("*.wal")}
        died = killed_at(folder, step)
        if case == "damaged":
            opens_whole_or_not_at_all(folder, expected)
        repaired(folder)
        assert repaired(folder)[0].action == "nothing", f"step {step}"
        assert locations(folder) == expected, f"step {step}: {locations(folder)}"
        assert not [each for partition in (0, 1) for each in problems(folder, partition)], f"step {step}"
        kept = {path.name: path.read_bytes() for path in wal_directory(folder).glob("damaged-*/*.wal")}
        assert kept == originals, f"step {step}"
        assert not [*wal_directory(folder).glob("preparing-*"), *wal_directory(folder).glob("repair-*")]
        shutil.rmtree(folder)
        if not died:
            return step
        step += 1


if __name__ == "__main__":
    sys.stdout.write(f"{main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])}\n")
