"""Fixtures for all tests: object stores, and the seed of everything random."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.log.store import ObjectStore, open_store
from frazil.log.store.local import LocalStore
from tests.servers.proxy import Proxy
from tests.servers.shared import S3Server, shared_s3_server


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of a test's random choices, shown when it fails; FRAZIL_TEST_SEED repeats it."""
    given = os.environ.get("FRAZIL_TEST_SEED")
    chosen = int(given) if given else random.SystemRandom().getrandbits(32)
    request.node.add_report_section("call", "seed", f"repeat this with FRAZIL_TEST_SEED={chosen}")
    return chosen


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server, one for all workers of this run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with shared_s3_server(folder) as server:
        yield server


@pytest.fixture
def s3_prefix() -> str:
    """A part of the bucket that no other test uses."""
    return uuid.uuid4().hex


@pytest.fixture
def s3_store(s3_server: S3Server, s3_prefix: str, tmp_path: Path) -> ObjectStore:
    return open_store(s3_server.config(s3_prefix), tmp_path)


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[Proxy]:
    """A proxy before the S3 server that fails as it is told."""
    with Proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def local_store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture(params=["local", "s3"])
def any_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Each kind of store in turn; the same tests must pass on both."""
    store: ObjectStore = request.getfixturevalue(f"{request.param}_store")
    return store
