"""Kills the process at random moments and at chosen lines: acknowledged messages are never delivered again."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from frazil.failpoints import VARIABLE
from frazil.store.local import LocalStore
from frazil.topics.subscriptions.checkpoints import newest
from frazil.topics.subscriptions.journal import Journal
from frazil.topics.subscriptions.options import Kind
from frazil.topics.subscriptions.progress import Progress
from tests.topics.subscriptions.acker import PLACE

Place = tuple[int, int]


def live(folder: Path, sync: str, kind: Kind, kill_after: float | None, failpoint: str | None) -> list[str]:
    """Runs the process until some time after it acknowledged something, and returns what it printed."""
    environment = os.environ | ({VARIABLE: failpoint} if failpoint else {})
    command = [sys.executable, "-m", "tests.topics.subscriptions.acker", str(folder), sync, str(kind), "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        lines = []
        timer: threading.Timer | None = None
        for line in process.stdout:
            lines.append(line)
            if timer is None and kill_after is not None and line.startswith("A"):
                timer = threading.Timer(kill_after, process.kill)
                timer.start()
        if timer:
            timer.join()
        assert process.wait() == -9
    return lines


def stored(folder: Path) -> dict[int, Progress]:
    async def read() -> dict[int, Progress]:
        checkpoint = newest(LocalStore(folder / "store"), PLACE)
        assert checkpoint is not None
        journal = await Journal.open(folder)
        known = {partition: progress.copy() for partition, progress in checkpoint.partitions.items()}
        for partition, progress in journal.recovered(PLACE, checkpoint.generation).items():
            known[partition].join(progress)
        await journal.close()
        return known

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("sync", "kind"), [("periodic", Kind.SHARED), ("always", Kind.EXCLUSIVE), ("none", Kind.KEY_SHARED)]
)
def test_killed_and_started_again(tmp_path: Path, seed: int, sync: str, kind: Kind) -> None:
    rng = random.Random(seed)
    acknowledged: set[Place] = set()
    delivered: set[Place] = set()
    known: dict[int, Progress] = {}
    points = ["acks-before-write", "acks-before-sync", "acks-stored"]
    for number in range(6):
        point = f"{rng.choice(points)}:{rng.randint(1, 60)}" if number % 2 else None
        before = len(acknowledged)
        for line in live(tmp_path, sync, kind, None if point else rng.uniform(0.05, 0.3), point):
            what, partition, start, end = line.split()
            places = {(int(partition), offset) for offset in range(int(start), int(end))}
            if what == "D":
                assert not places & acknowledged, "acknowledged, and delivered again"
                delivered |= places
            else:
                assert places <= delivered
                acknowledged |= places
        assert point or len(acknowledged) > before
        known = stored(tmp_path)
        assert {place for place in acknowledged if not known[place[0]].has(place[1])} == set()
    for number, progress in known.items():
        counted = {(number, offset) for offset in range(progress.end) if progress.has(offset)}
        assert counted <= delivered, "nothing counts as acknowledged that was not delivered"
