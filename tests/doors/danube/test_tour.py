"""Tests what Danube's own client, unchanged, sees of Frazil."""

from __future__ import annotations

from pathlib import Path

from tests.doors.danube.clients import Tour, until
from tests.doors.process import IngestProcess
from tests.servers.child import free_ports


def test_everything_that_the_client_can_do(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = IngestProcess(tmp_path / "server", {"danube": {"port": port}}, {"FRAZIL__DANUBE__ENABLED": "true"})
    try:
        until(lambda: "Doors are open" in server.child.log(), 60)
        tour = Tour(f"http://127.0.0.1:{port}", tmp_path / "tour")
        until(lambda: not tour.alive, 120)
        seen = dict(tour.told())
        assert tour.wait(1) == 0, tour.log()[-3000:]
    finally:
        server.kill()
    assert seen == {
        "whole": [[0, 255], {"a": "b"}, "k", "p"],
        "exclusive": ["exclusive, and consumer 'a' has it", "0"],
        "shared": list("012345"),
        "failover": [list("012"), list("345")],
        "keys": [["0", "3", "5"], ["1", "4"]],
        "refused": ["0", "0"],
        "partitions": list("012345678"),
        "not reliable": list("012"),
        "too large": "INVALID_ARGUMENT",
    }
