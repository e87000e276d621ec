"""Tests kills at every step from reading a range to the end of a flush: each record is in one table, once."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.lake.tables.tables import base_identifier, dead_letter_identifier
from frazil.pipeline.move.attempt_cleanup import AttemptCleanup
from frazil.pipeline.move.context import PipelineContext
from tests.faults.steps import failpoints
from tests.lake.support import local_config, nessie_config
from tests.log.support import TOPIC, rows, writer
from tests.pipeline.support import broken, found_offsets, move_all, pipeline_context
from tests.servers.shared import NessieServer, S3Server

ROWS = 150
BROKEN = (3, 47, 48, 120)


@pytest.fixture(params=["local", "nessie"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    """Returns the settings of an embedded lake, or of a REST catalog with everything on S3."""
    if request.param == "local":
        return local_config(tmp_path)
    nessie: NessieServer = request.getfixturevalue("nessie")
    s3_server: S3Server = request.getfixturevalue("s3_server")
    return nessie_config(tmp_path, nessie, s3_server, request.getfixturevalue("namespace"))


@pytest.mark.parametrize("turn", range(2))
def test_killed_somewhere(turn: int, config: Config, seed: int) -> None:
    check_killed_at(random.Random(seed + turn).choice(failpoints()), config, seed)


@pytest.mark.soak
@pytest.mark.parametrize("failpoint", failpoints())
def test_killed_at(failpoint: str, config: Config, seed: int) -> None:
    check_killed_at(failpoint, config, seed)


@pytest.mark.soak
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("failpoint", [name for name in failpoints() if name.startswith(("flush", "task", "commit"))])
def test_killed_later(failpoint: str, count: int, config: Config, seed: int) -> None:
    check_killed_at(f"{failpoint}:{count}", config, seed)


def check_killed_at(failpoint: str, config: Config, seed: int) -> None:
    chance = random.Random(seed)
    with pipeline_context(config, seed) as context:
        fill(context, chance)
        killed = run(config, seed, failpoint)
        if not killed:
            fill(context, chance, wider=True)
            killed = run(config, seed, failpoint)
        assert killed, f"nothing passed {failpoint}"
        move_all(context)
        # Later commits are the evidence that an attempt was never committed.
        AttemptCleanup(context).clean()
        check_rows(context)
        if config.store.url is None:
            # A catalog that keeps only the newest snapshot cannot show what became of each attempt.
            check_files(context)
            assert not context.txlog.open_attempts()


def fill(context: PipelineContext, chance: random.Random, *, wider: bool = False) -> None:
    """Appends records to two partitions in segments of random size. Some of the records fit no table."""
    for partition in (0, 1):
        with closing(writer(context.store, context.config.data_dir, partition=partition)) as log:
            at, end = log.next_offset, log.next_offset + ROWS
            while at < end:
                count = 1 if at % ROWS in BROKEN else chance.randint(1, 20)
                count = min(
                    [count, *(stop - at for stop in (*(at - at % ROWS + b for b in BROKEN), end) if stop > at)]
                )
                batch = broken(at, count) if at % ROWS in BROKEN else rows(at, count)
                if wider:
                    batch = batch.append_column("note", [f"note {offset}" for offset in range(at, at + count)])
                log.append(batch)
                at += count
                if chance.random() < 0.3:
                    log.seal_all()
            log.seal_all()


def run(config: Config, seed: int, failpoint: str) -> bool:
    """Moves in a process of its own, and returns whether it was killed."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults.mover_process"],
        input=pickle.dumps(config),
        env={**os.environ, "FRAZIL_FAILPOINT": failpoint, "SEED": str(seed)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr.decode()
    return ended.returncode != 0


def check_rows(context: PipelineContext) -> None:
    base = found_offsets(context.lake, base_identifier(context.config, TOPIC))
    dead = found_offsets(context.lake, dead_letter_identifier(context.config, TOPIC))
    rounds = max(offset for _, offset in base) // ROWS + 1
    unfit = {(partition, n * ROWS + at) for partition in (0, 1) for n in range(rounds) for at in BROKEN}
    everything = {(partition, offset) for partition in (0, 1) for offset in range(rounds * ROWS)}
    assert dead == Counter(unfit)
    assert base == Counter(everything - unfit)


def check_files(context: PipelineContext) -> None:
    """Checks that no file of a batch that was not committed is left."""
    for identifier in (base_identifier(context.config, TOPIC), dead_letter_identifier(context.config, TOPIC)):
        table = context.lake.load(identifier)
        named = {task.file.file_path for task in table.scan().plan_files()}
        folder = Path(table.location().removeprefix("file://")) / "data"
        assert {path.as_uri() for path in folder.rglob("*.parquet")} == named
