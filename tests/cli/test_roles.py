"""Tests the roles that run beside others, each as a real process."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import httpx

from frazil.web.answers import ARROW_STREAM, COMPLETE
from tests.cli.support import running, serving


def test_queries_in_a_process_of_their_own(tmp_path: Path) -> None:
    """It sees what another process has acknowledged, through the WAL in the data folder that both have."""
    with serving(tmp_path) as doors, running(tmp_path, "query") as queries, httpx.Client(timeout=60) as client:
        assert list(client.get(f"{queries.url}/health").json()["components"]) == ["query"]
        assert client.put(f"{doors.url}/topics/orders").status_code == 201
        assert client.post(f"{doors.url}/topics/orders", content=b"one").status_code == 200
        found = client.post(f"{queries.url}/sql", content="SELECT count(*) AS n FROM orders")
        assert (found.json(), COMPLETE in found.headers) == ([{"n": 1}], False)
        missing = client.get(f"{queries.url}/topics/orders")
        assert (missing.status_code, "GET / lists" in missing.json()["error"]) == (404, True)
        assert "/sql" in client.get(f"{queries.url}/").text
        code, _ = queries.end(signal.SIGTERM)
    assert code == 130


def test_a_query_far_from_the_doors_says_that_the_newest_rows_may_be_missing(tmp_path: Path) -> None:
    store = {"FRAZIL__STORE__URL": (tmp_path / "store").as_uri()}
    elsewhere = str(tmp_path / "elsewhere")
    with (
        serving(tmp_path, store) as doors,
        running(tmp_path, "query", FRAZIL__DATA_DIR=elsewhere, **store) as queries,
        httpx.Client(timeout=60) as client,
    ):
        assert client.put(f"{doors.url}/topics/orders").status_code == 201
        assert client.post(f"{doors.url}/topics/orders", content=b"one").status_code == 200
        for kind in ("application/json", ARROW_STREAM):
            found = client.post(f"{queries.url}/sql", content="SELECT * FROM orders", headers={"accept": kind})
            assert (found.status_code, found.headers[COMPLETE]) == (200, "false")
        assert COMPLETE not in client.post(f"{queries.url}/sql", content="SELECT 1").headers


def test_maintenance_in_a_process_of_its_own(tmp_path: Path) -> None:
    """It runs though pipelines are told not to, and does not start Spark for nothing."""
    with running(tmp_path, "maintain", "run", FRAZIL__MAINTENANCE__ENABLED="false") as maintenance:
        components: dict[str, dict[str, str]] = {}
        deadline = time.monotonic() + 60
        while components.get("maintenance", {}).get("status") != "healthy":
            assert time.monotonic() < deadline, components
            time.sleep(0.1)
            components = httpx.get(f"{maintenance.url}/health").json()["components"]
        assert list(components) == ["maintenance"]
        code, errors = maintenance.end(signal.SIGTERM)
    assert (code, "Spark" in errors) == (130, False)
    assert "maintenance runs on its schedule" in errors
