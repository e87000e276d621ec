"""Tests an object store that fails puts and gets of a table's files.

Each record is in one table, once, and no file of a failed attempt is left after maintenance.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from frazil.config.model import Config
from tests.faults.loader import Loader, check_everything
from tests.faults.network_faults import FAULTS, PATIENT, check_no_orphans, faults, move_on
from tests.servers.proxy import Proxy
from tests.servers.shared import S3Server

TOPICS = ("orders",)
ROUNDS = 3
# Object stores do not answer 409 to a put. Only catalogs do.
KINDS = sorted(kind for kind in FAULTS if not kind.startswith("409"))
FILES = {"data": "*/warehouse/*.parquet", "manifests": "*/warehouse/*.avro", "metadata": "*/warehouse/*.json"}


@pytest.fixture
def past(tmp_path: Path, s3_server: S3Server, s3_prefix: str) -> Config:
    """Returns the settings of an SQLite catalog with log and warehouse on S3."""
    return _config(tmp_path, s3_server, s3_prefix, None)


@pytest.fixture
def through(tmp_path: Path, s3_server: S3Server, s3_prefix: str, s3_proxy: Proxy) -> Config:
    """Returns the same settings through the proxy."""
    return _config(tmp_path, s3_server, s3_prefix, s3_proxy.endpoint)


def _config(folder: Path, s3_server: S3Server, prefix: str, endpoint: str | None) -> Config:
    store = s3_server.config(prefix, endpoint, timeout_seconds=2.0)
    return Config.model_validate({"data_dir": folder / "data", "store": store, "pipeline": PATIENT})


def test_files_that_cannot_be_put(through: Config, past: Config, s3_proxy: Proxy, seed: int) -> None:
    chance = random.Random(seed)
    kind = chance.choice(["500 before", "500 after", "no reply"])
    check_fault(through, past, s3_proxy, seed, kind, FILES[chance.choice(sorted(FILES))], rounds=1)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("files", sorted(FILES))
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_fail(through: Config, past: Config, s3_proxy: Proxy, seed: int, kind: str, files: str) -> None:
    check_fault(through, past, s3_proxy, seed, kind, FILES[files], ROUNDS)


def check_fault(through: Config, past: Config, proxy: Proxy, seed: int, kind: str, pattern: str, rounds: int) -> None:
    chance = random.Random(seed)
    with Loader(past, seed, TOPICS) as loader:
        loader.fill(4)
        move_on(past, loader, seed)
        for _ in range(rounds):
            loader.fill(5)
            method = chance.choice(["PUT", "*"])
            with faults(proxy, chance, kind, pattern, method) as kept:
                move_on(through, loader, seed)
            for late in kept:
                late.forward()
        check_everything(past, loader)
        check_no_orphans(past, TOPICS)
        check_everything(past, loader)
