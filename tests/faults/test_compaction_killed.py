"""Tests kills at every step of a compaction: no row is lost, repeated or changed, and the next run does the rest."""

from __future__ import annotations

import os
import pickle
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.tables.tables import base_identifier
from tests.faults.steps import SOURCE
from tests.lake.commit.commits import live_files, read_rows, span
from tests.lake.support import local_config, make_base_table, nessie_config
from tests.maintain.support import move
from tests.servers.shared import NessieServer, S3Server


def failpoints() -> list[str]:
    """Returns all failpoints on the way of a compaction, found in the code itself."""
    folders = ("maintain/compaction", "maintain/rewrite", "lake/commit")
    modules = [module for folder in folders for module in (SOURCE / folder).glob("*.py")]
    return sorted({name for each in modules for name in re.findall(r'failpoint\("([^"]+)"\)', each.read_text())})


@pytest.fixture(params=["local", "nessie"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    """Returns the settings of an embedded lake, or of a REST catalog with everything on S3."""
    if request.param == "local":
        return local_config(tmp_path)
    nessie: NessieServer = request.getfixturevalue("nessie")
    s3_server: S3Server = request.getfixturevalue("s3_server")
    return nessie_config(tmp_path, nessie, s3_server, request.getfixturevalue("namespace"))


def test_all_steps_are_known() -> None:
    assert len(failpoints()) == 9


def test_killed_somewhere(config: Config, seed: int) -> None:
    check_killed_at(random.Random(seed).choice(failpoints()), config)


@pytest.mark.soak
@pytest.mark.parametrize("failpoint", failpoints())
def test_killed_at(failpoint: str, config: Config) -> None:
    check_killed_at(failpoint, config)


def check_killed_at(failpoint: str, config: Config) -> None:
    lake = Lake(config)
    make_base_table(lake, "events", pa.schema([pa.field("text", pa.string())]))
    name = base_identifier(config, "events")
    move(lake, 6, name=name)
    assert run(config, failpoint), f"nothing passed {failpoint}"
    check_not_rolled_back(lake.load(name))
    assert read_rows(lake, name) == span(0, 0, 60)
    move(lake, 1, name=name)
    assert not run(config, "")
    table = lake.load(name)
    check_not_rolled_back(table)
    assert len(live_files(table)) <= 2
    assert TableState.of(table).offsets == {0: 70}
    assert read_rows(lake, name) == span(0, 0, 70)
    move(lake, 1, name=name)
    assert read_rows(lake, name) == span(0, 0, 80)


def run(config: Config, failpoint: str) -> bool:
    """Compacts in a process of its own, and returns whether it was killed."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults.compactor_process"],
        input=pickle.dumps(config),
        env={**os.environ, "FRAZIL_FAILPOINT": failpoint},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr.decode()
    return ended.returncode != 0
