"""Fixtures for all tests: object stores, catalogs, brokers, Spark, and the seed of everything random."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
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
    # Importing it takes a while, and most tests do without.
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
            # PySpark leaves closing the sockets that results come through to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings(r"ignore:unclosed <socket.*127\.0\.0\.1:ResourceWarning"))


_SERVERS = {"s3_server", "nessie", "kafka", "own_kafka", "registry", "spark_keeper"}
_ALL_WITH_SERVERS = {"app", "cli", "doors", "faults", "fuzz", "pyspark_frazil", "servers", "web"}


def _needs_server(item: pytest.Item) -> bool:
    """Tells whether a test needs Spark, a server or another process. `make quick` does without these tests."""
    if _SERVERS.intersection(getattr(item, "fixturenames", ())):
        return True
    if item.path.relative_to(Path(__file__).parent).parts[0] in _ALL_WITH_SERVERS:
        return True
    names = vars(getattr(item, "module", None) or object)
    return any(
        value is subprocess or str(getattr(value, "__module__", "")).startswith("tests.servers")
        for value in names.values()
    )


# Their ports are the same for all: only the tests that are about them open the doors, on free ones.
os.environ.update(NO_TELEMETRY)
# As the door itself has it; tests may use gRPC before they import that.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

use_archive()

# How long an example takes says more about the machine than about the code.
settings.register_profile("frazil", deadline=None, max_examples=examples(40))
settings.load_profile("frazil")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of a test's random choices, shown when it fails; FRAZIL_TEST_SEED repeats it."""
    given = os.environ.get("FRAZIL_TEST_SEED")
    chosen = int(given) if given else random.SystemRandom().getrandbits(32)
    request.node.add_report_section("call", "seed", f"repeat this with FRAZIL_TEST_SEED={chosen}")
    return chosen


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def s3_server(run_folder: Path) -> Iterator[S3Server]:
    """A real S3 server, one for all workers of this run."""
    with shared_s3_server(run_folder) as server:
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


@pytest.fixture(scope="session")
def nessie(run_folder: Path, s3_server: S3Server) -> Iterator[NessieServer]:
    """A real Iceberg REST catalog, one for all workers of this run."""
    with shared_nessie(run_folder, s3_server) as server:
        yield server


@pytest.fixture
def nessie_proxy(nessie: NessieServer) -> Iterator[Proxy]:
    """A proxy before the catalog that fails as it is told."""
    with Proxy(nessie.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def kafka(run_folder: Path) -> Iterator[KafkaServer]:
    """A real Kafka broker, one for all workers of this run."""
    with shared_kafka(run_folder) as server:
        yield server


@pytest.fixture
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that the test may stop, kill, freeze and start again. It takes seconds."""
    broker = Broker.launch(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def registry(run_folder: Path) -> Iterator[RegistryServer]:
    """A real schema registry, one for all workers of this run."""
    with shared_registry(run_folder) as server:
        yield server


@pytest.fixture
def registry_proxy(registry: RegistryServer) -> Iterator[Proxy]:
    """A proxy before the registry that fails as it is told."""
    with Proxy(registry.endpoint) as proxy:
        yield proxy


@pytest.fixture
def secure_registry(registry: RegistryServer, tmp_path: Path) -> Iterator[SecureProxy]:
    """The registry over TLS, for those who know the password."""
    with SecureProxy(registry.endpoint, tmp_path / "tls") as proxy:
        yield proxy


@pytest.fixture
def namespace() -> str:
    """A namespace of a catalog that no other test uses."""
    return f"t{uuid.uuid4().hex}"


@pytest.fixture
def local_store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture(params=["local", "s3"])
def any_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Each kind of store in turn; the same tests must pass on both."""
    store: ObjectStore = request.getfixturevalue(f"{request.param}_store")
    return store


@pytest.fixture(scope="session")
def spark_config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The settings of the shared Spark session: an SQLite catalog and a warehouse in a folder of its own."""
    return Config(data_dir=tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="session")
def spark_keeper(spark_config: Config) -> Iterator[SparkKeeper]:
    keeper = SparkKeeper(spark_config)
    yield keeper
    keeper.stop()


@pytest.fixture
def spark_user(spark_keeper: SparkKeeper) -> Iterator[SparkKeeper]:
    """Collects what a test leaves of PySpark while it is known whose it is."""
    yield spark_keeper
    gc.collect()


@pytest.fixture
def spark(spark_user: SparkKeeper) -> SparkSession:
    """The shared Spark session; a test keeps to a namespace of its own."""
    return spark_user.shared()


@pytest.fixture
def spark_for(spark_user: SparkKeeper) -> Callable[[Config], SparkSession]:
    """Gives a session on the lake of other settings. It costs nothing: the JVM is the shared one."""
    return spark_user.for_lake


@pytest.fixture
def own_spark(spark_user: SparkKeeper) -> Iterator[Callable[..., SparkSession]]:
    """Starts a JVM of the test's own: `own_spark(config, {"spark.master": …})`. It takes seconds."""
    yield spark_user.own
    spark_user.stop()
