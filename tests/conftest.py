"""Fixtures for all tests: object stores, catalogs, brokers, Spark, and the seed of everything random."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import is_hypothesis_test, settings

from frazil.config.model import Config
from frazil.store import ObjectStore, open_store
from frazil.store.local import LocalStore
from tests.cli.support import NO_TELEMETRY
from tests.examples import examples
from tests.servers.broker import Broker
from tests.servers.class_data import use_archive
from tests.servers.kafka import KafkaServer
from tests.servers.proxy import Proxy
from tests.servers.registry import RegistryServer
from tests.servers.secure import SecureProxy
from tests.servers.shared import (
    NessieServer,
    S3Server,
    shared_kafka,
    shared_nessie,
    shared_registry,
    shared_s3_server,
)
from tests.servers.spark import SparkKeeper

if TYPE_CHECKING:
    # Importing it takes a while, and most tests do not need it.
    from pyspark.sql import SparkSession


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use Spark share one worker, and so one JVM. Random tests are marked: `make soak` repeats them."""
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.random)
        if _needs_server(item):
            item.add_marker(pytest.mark.server)
        if "spark_keeper" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            # PySpark leaves it to the garbage collector to close the sockets that results come through.
            item.add_marker(pytest.mark.filterwarnings(r"ignore:unclosed <socket.*127\.0\.0\.1:ResourceWarning"))


_SERVERS = {"s3_server", "nessie", "kafka", "own_kafka", "registry", "spark_keeper"}
_KINDS = {"nessie", "s3"}
"""Parameters of fixtures that ask for a server while the test runs."""
_ALL_WITH_SERVERS = {"app", "cli", "doors", "faults", "fuzz", "pyspark_frazil", "servers", "web"}


def _needs_server(item: pytest.Item) -> bool:
    """Tells whether a test needs Spark, a server or another process. `make quick` does without these tests."""
    if _SERVERS.intersection(getattr(item, "fixturenames", ())):
        return True
    if item.path.relative_to(Path(__file__).parent).parts[0] in _ALL_WITH_SERVERS:
        return True
    if _KINDS.intersection(_texts(item)) or item.get_closest_marker("xdist_group"):
        return True
    return _starts_processes(getattr(item, "module", None))


@cache
def _starts_processes(module: ModuleType | None) -> bool:
    """Tells whether a module of tests, or one that it imports from, starts servers or processes."""
    used = {str(getattr(value, "__module__", "")) for value in vars(module or object).values()}
    if any(name.startswith("tests.servers") for name in used):
        return True
    # A module's own tests are among its values, so it is one of these.
    beside = [sys.modules[name] for name in used if name.startswith("tests.") and name in sys.modules]
    return any(value is subprocess or value is multiprocessing for each in beside for value in vars(each).values())


def _texts(item: pytest.Item) -> list[str]:
    """Returns the parameters of a test that are texts."""
    parameters = (
        item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    )
    return [value for value in parameters if isinstance(value, str)]


# Their ports are the same for all: only the tests that are about them open the doors, on free ones.
os.environ.update(NO_TELEMETRY)
# The door sets this too; tests may use gRPC before they import the door.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

use_archive()

# How long an example takes says more about the machine than about the code.
settings.register_profile("frazil", deadline=None, max_examples=examples(40))
settings.load_profile("frazil")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Returns the seed of a test's random choices, which is shown when it fails. FRAZIL_TEST_SEED repeats it."""
    given = os.environ.get("FRAZIL_TEST_SEED")
    chosen = int(given) if given else random.SystemRandom().getrandbits(32)
    request.node.add_report_section("call", "seed", f"repeat this with FRAZIL_TEST_SEED={chosen}")
    return chosen


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder that all workers of this run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def s3_server(run_folder: Path) -> Iterator[S3Server]:
    """Runs a real S3 server, one for all workers of this run."""
    with shared_s3_server(run_folder) as server:
        yield server


@pytest.fixture
def s3_prefix() -> str:
    """Returns a prefix in the bucket that no other test uses."""
    return uuid.uuid4().hex


@pytest.fixture
def s3_store(s3_server: S3Server, s3_prefix: str, tmp_path: Path) -> ObjectStore:
    return open_store(s3_server.config(s3_prefix), tmp_path)


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[Proxy]:
    """Runs a proxy before the S3 server that fails as it is told."""
    with Proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def nessie(run_folder: Path, s3_server: S3Server) -> Iterator[NessieServer]:
    """Runs a real Iceberg REST catalog, one for all workers of this run."""
    with shared_nessie(run_folder, s3_server) as server:
        yield server


@pytest.fixture
def nessie_proxy(nessie: NessieServer) -> Iterator[Proxy]:
    """Runs a proxy before the catalog that fails as it is told."""
    with Proxy(nessie.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def kafka(run_folder: Path) -> Iterator[KafkaServer]:
    """Runs a real Kafka broker, one for all workers of this run."""
    with shared_kafka(run_folder) as server:
        yield server


@pytest.fixture
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Runs a broker that the test may stop, kill, freeze and start again. Starting it takes seconds."""
    broker = Broker.launch(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def registry(run_folder: Path) -> Iterator[RegistryServer]:
    """Runs a real schema registry, one for all workers of this run."""
    with shared_registry(run_folder) as server:
        yield server


@pytest.fixture
def registry_proxy(registry: RegistryServer) -> Iterator[Proxy]:
    """Runs a proxy before the registry that fails as it is told."""
    with Proxy(registry.endpoint) as proxy:
        yield proxy


@pytest.fixture
def secure_registry(registry: RegistryServer, tmp_path: Path) -> Iterator[SecureProxy]:
    """Serves the registry over TLS to those who know the password."""
    with SecureProxy(registry.endpoint, tmp_path / "tls") as proxy:
        yield proxy


@pytest.fixture
def namespace() -> str:
    """Returns a namespace of a catalog that no other test uses."""
    return f"t{uuid.uuid4().hex}"


@pytest.fixture
def local_store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture(params=["local", "s3"])
def any_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Returns each kind of store in turn. The same tests must pass on both."""
    store: ObjectStore = request.getfixturevalue(f"{request.param}_store")
    return store


@pytest.fixture(scope="session")
def spark_config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Returns the settings of the shared Spark session: an SQLite catalog and a warehouse in a folder of its own."""
    return Config(data_dir=tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="session")
def spark_keeper(spark_config: Config) -> Iterator[SparkKeeper]:
    keeper = SparkKeeper(spark_config)
    yield keeper
    keeper.stop()


@pytest.fixture
def spark_user(spark_keeper: SparkKeeper) -> Iterator[SparkKeeper]:
    """Collects the garbage that a test leaves in PySpark, so that it is blamed on the right test."""
    yield spark_keeper
    gc.collect()


@pytest.fixture
def spark(spark_user: SparkKeeper) -> SparkSession:
    """Returns the shared Spark session. A test keeps to a namespace of its own."""
    return spark_user.shared()


@pytest.fixture
def spark_for(spark_user: SparkKeeper) -> Callable[[Config], SparkSession]:
    """Returns a function that gives a session on the lake of other settings.

    It is cheap: the JVM is the shared one.
    """
    return spark_user.for_lake


@pytest.fixture
def own_spark(spark_user: SparkKeeper) -> Iterator[Callable[..., SparkSession]]:
    """Yields a function that starts a JVM of the test's own:

    `own_spark(config, {"spark.master": …})`. It takes seconds.
    """
    yield spark_user.own
    spark_user.stop()
