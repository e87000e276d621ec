"""One S3 server for all workers of a test run.

The first worker starts a keeper process (`python -m tests.servers.shared FOLDER`) that runs the server; every worker
holds a connection to it. The keeper stops the server when the last connection closes, which the system does also
for a worker that was killed.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from frazil.config.model import StoreConfig
from tests.servers.seaweedfs import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY, SeaweedFS, StartFailed

# How long a keeper waits for the worker that started it.
_FIRST_SECONDS = 5.0
_REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class S3Server:
    endpoint: str

    def config(self, prefix: str, endpoint: str | None = None, timeout_seconds: float = 20.0) -> StoreConfig:
        """Settings for a part of the server's bucket, perhaps through a proxy at `endpoint`."""
        return StoreConfig.model_validate(
            {
                "url": f"s3://{BUCKET}/{prefix}",
                "options": {"endpoint": endpoint or self.endpoint, "region": "us-east-1"},
                "access_key_id": ACCESS_KEY_ID,
                "secret_access_key": SECRET_ACCESS_KEY,
                "timeout_seconds": timeout_seconds,
            }
        )


@contextmanager
def shared_s3_server(folder: Path) -> Iterator[S3Server]:
    """The server of this run, running for as long as the context is open; `folder` is the same for all workers."""
    with (folder / "s3.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = _connect(folder) or _start(folder)
    connection, server = held
    with connection:
        yield server


def _connect(folder: Path) -> tuple[socket.socket, S3Server] | None:
    note = folder / "s3.json"
    if not note.exists():
        return None
    found = json.loads(note.read_text())
    try:
        connection = socket.create_connection(("127.0.0.1", found["keeper"]), timeout=5)
        if connection.recv(1):
            return connection, S3Server(found["endpoint"])
        connection.close()
    except OSError:
        pass
    return None


def _start(folder: Path) -> tuple[socket.socket, S3Server]:
    (folder / "s3.json").unlink(missing_ok=True)
    log = folder / "s3-keeper.log"
    with log.open("wb") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.shared", str(folder)],
            cwd=_REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    while keeper.poll() is None:
        held = _connect(folder)
        if held is not None:
            # The keeper outlives this worker when another still needs it, so nobody waits for its end.
            keeper.returncode = 0
            return held
        time.sleep(0.05)
    raise StartFailed(log.read_text(errors="replace"))


def _keep(folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="s3-") as data,
        socket.create_server(("127.0.0.1", 0)) as door,
    ):
        server = SeaweedFS.start(Path(data))
        try:
            draft = folder / "s3.json.new"
            draft.write_text(json.dumps({"keeper": door.getsockname()[1], "endpoint": server.endpoint}))
            draft.rename(folder / "s3.json")
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
    _keep(Path(sys.argv[1]))
