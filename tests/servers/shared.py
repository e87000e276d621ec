"""Runs one server of a kind for all workers of a test run.

The first worker that needs it starts a keeper process (`python -m tests.servers.shared FOLDER KIND …`) that runs the
server, and every worker holds a connection to it. The keeper stops the server when the last connection closes, which
the system does also for a worker that was killed.
"""

from __future__ import annotations

import fcntl
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from frazil.config.sections.lake import LakeConfig
from frazil.config.sections.log import StoreConfig
from tests.servers.broker import Broker
from tests.servers.child import StartFailed
from tests.servers.kafka import KafkaServer
from tests.servers.nessie import Nessie
from tests.servers.registry import Registry, RegistryServer
from tests.servers.seaweedfs import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY, SeaweedFS

# A keeper waits this long for the worker that started it.
_FIRST_SECONDS = 5.0
_REPOSITORY = Path(__file__).parents[2]


class Server(Protocol):
    @property
    def endpoint(self) -> str: ...

    def stop(self) -> None: ...


_KINDS: Mapping[str, Callable[..., Server]] = {
    "s3": SeaweedFS.start,
    "nessie": Nessie.start,
    "kafka": Broker.launch,
    "registry": Registry.start,
}


@dataclass(frozen=True)
class S3Server:
    endpoint: str

    def config(self, prefix: str, endpoint: str | None = None, timeout_seconds: float = 20.0) -> StoreConfig:
        """Returns settings for a part of the server's bucket, perhaps through a proxy at `endpoint`."""
        return StoreConfig.model_validate(
            {
                "url": f"s3://{BUCKET}/{prefix}",
                "options": {"endpoint": endpoint or self.endpoint, "region": "us-east-1"},
                "access_key_id": ACCESS_KEY_ID,
                "secret_access_key": SECRET_ACCESS_KEY,
                "timeout_seconds": timeout_seconds,
            }
        )


@dataclass(frozen=True)
class NessieServer:
    """The catalog of this run. A test keeps to a namespace of its own."""

    endpoint: str
    s3_endpoint: str

    @property
    def uri(self) -> str:
        """Returns the address of Iceberg's REST interface."""
        return self.uri_at(self.endpoint)

    @staticmethod
    def uri_at(endpoint: str) -> str:
        return f"{endpoint}/iceberg/"

    def properties(self, endpoint: str | None = None) -> dict[str, str]:
        """Returns the catalog's settings by PyIceberg's names, perhaps through a proxy at `endpoint`."""
        return {
            "type": "rest",
            "uri": self.uri_at(endpoint or self.endpoint),
            "s3.endpoint": self.s3_endpoint,
            "s3.region": "us-east-1",
            "s3.access-key-id": ACCESS_KEY_ID,
            "s3.secret-access-key": SECRET_ACCESS_KEY,
            "s3.path-style-access": "true",
        }

    def config(self, namespace: str, endpoint: str | None = None) -> LakeConfig:
        return LakeConfig(properties=self.properties(endpoint), namespace=namespace)


@contextmanager
def shared_s3_server(folder: Path) -> Iterator[S3Server]:
    """Runs the S3 server of this run. `folder` is the same for all workers."""
    with _shared(folder, "s3") as endpoint:
        yield S3Server(endpoint)


@contextmanager
def shared_nessie(folder: Path, s3: S3Server) -> Iterator[NessieServer]:
    """Runs the catalog of this run on its S3 server. `folder` is the same for all workers."""
    with _shared(folder, "nessie", s3.endpoint) as endpoint:
        yield NessieServer(endpoint, s3.endpoint)


@contextmanager
def shared_kafka(folder: Path) -> Iterator[KafkaServer]:
    """Runs the broker of this run. `folder` is the same for all workers."""
    with _shared(folder, "kafka") as endpoint:
        yield KafkaServer.at(endpoint)


@contextmanager
def shared_registry(folder: Path) -> Iterator[RegistryServer]:
    """Runs the schema registry of this run. `folder` is the same for all workers."""
    with _shared(folder, "registry") as endpoint:
        yield RegistryServer(endpoint)


@contextmanager
def _shared(folder: Path, kind: str, *arguments: str) -> Iterator[str]:
    """Yields the address of a server, which runs for as long as the context is open."""
    with (folder / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = _connect(folder, kind) or _start(folder, kind, *arguments)
    connection, endpoint = held
    with connection:
        yield endpoint


def _connect(folder: Path, kind: str) -> tuple[socket.socket, str] | None:
    note = folder / f"{kind}.json"
    if not note.exists():
        return None
    found = json.loads(note.read_text())
    try:
        connection = socket.create_connection(("127.0.0.1", found["keeper"]), timeout=5)
        if connection.recv(1):
            return connection, found["endpoint"]
        connection.close()
    except OSError:
        pass
    return None


def _start(folder: Path, kind: str, *arguments: str) -> tuple[socket.socket, str]:
    (folder / f"{kind}.json").unlink(missing_ok=True)
    log = folder / f"{kind}-keeper.log"
    with log.open("wb") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.shared", str(folder), kind, *arguments],
            cwd=_REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    while keeper.poll() is None:
        held = _connect(folder, kind)
        if held is not None:
            # The keeper outlives this worker when another still needs it, so nobody waits for its end.
            keeper.returncode = 0
            return held
        time.sleep(0.05)
    raise StartFailed(log.read_text(errors="replace"))


def _keep(folder: Path, kind: str, *arguments: str) -> None:
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix=f"{kind}-") as data,
        socket.create_server(("127.0.0.1", 0)) as door,
    ):
        server = _KINDS[kind](Path(data), *arguments)
        try:
            draft = folder / f"{kind}.json.new"
            draft.write_text(json.dumps({"keeper": door.getsockname()[1], "endpoint": server.endpoint}))
            draft.rename(folder / f"{kind}.json")
            _wait_for_the_last(door)
        finally:
            door.close()
            server.stop()


def _wait_for_the_last(door: socket.socket) -> None:
    """Greet every worker that connects, and return when all have gone."""
    with selectors.DefaultSelector() as selector:
        selector.register(door, selectors.EVENT_READ)
        workers = 0
        while True:
            ready = selector.select(None if workers else _FIRST_SECONDS)
            if not ready:
                return
            for key, _ in ready:
                if key.fileobj is door:
                    worker, _ = door.accept()
                    worker.sendall(b"+")
                    selector.register(worker, selectors.EVENT_READ)
                    workers += 1
                else:
                    selector.unregister(key.fileobj)
                    workers -= 1
            if not workers:
                return


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), *sys.argv[2:])
