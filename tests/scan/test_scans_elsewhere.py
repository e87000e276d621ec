"""Tests scans of a log and of tables that are not on this machine."""

from __future__ import annotations

import uuid
from contextlib import closing
from pathlib import Path

from frazil.scan.interface import ScanRequest
from frazil.scan.predicates.tree import Column, Comparison
from frazil.scan.scanner import TopicScanner
from tests.query.support import World, rows
from tests.servers.shared import NessieServer, S3Server


def test_a_store_and_a_catalog_elsewhere(tmp_path: Path, s3_server: S3Server, nessie: NessieServer) -> None:
    """The store is S3 and the catalog speaks REST, which may be asked less often."""
    name = f"scans{uuid.uuid4().hex[:8]}"
    for age in (0.0, 60.0):
        lake = {"properties": nessie.properties(), "namespace": name, "read_age_seconds": age}
        with (
            World(tmp_path / str(age), store=s3_server.config(f"{name}/{age}"), lake=lake) as world,
            closing(TopicScanner(world.config)) as scanner,
        ):
            written = 0
            topic = f"orders-{age:.0f}"
            for number in range(4):
                world.append(topic, rows(written, 30))
                written += 30
                world.seal(topic)
                if number % 2:
                    world.move(topic)
                world.append(topic, rows(written, 5))
                written += 5
                scan = scanner.scan(ScanRequest(topic, None))
                assert sorted(scan.table()["id"].to_pylist()) == list(range(written))
                assert scan.offsets == {0: written}
            where = Comparison(Column("id"), "==", 3)
            assert len(scanner.scan(ScanRequest(topic, None, where=where)).table()) == 1
