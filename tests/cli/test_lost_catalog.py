"""Tests a whole Frazil whose catalog is lost: it says what to do and, once that is done, has every row once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.support import FRAZIL, Served, environment, frazil, serving
from tests.servers.child import free_ports

SOON = 240.0


class FrazilFolder:
    """A folder with a Frazil, and the numbers of all records that were sent to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: dict[str, list[int]] = {"logs": [], "orders": []}
        self._otlp, grpc = free_ports(2)
        self.settings = {
            "FRAZIL__LOG__SEAL__INTERVAL_SECONDS": "0.2",
            "FRAZIL__OTLP__ENABLED": "true",
            "FRAZIL__OTLP__HTTP__PORT": str(self._otlp),
            "FRAZIL__OTLP__GRPC__PORT": str(grpc),
        }

    def next(self, topic: str, count: int) -> list[int]:
        numbers = list(range(len(self.sent[topic]), len(self.sent[topic]) + count))
        self.sent[topic] += numbers
        return numbers

    def log_over_http(self, count: int) -> None:
        records = [{"body": {"stringValue": str(number)}} for number in self.next("logs", count)]
        body = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
        httpx.post(f"http://127.0.0.1:{self._otlp}/v1/logs", json=body, timeout=30).raise_for_status()

    def load(self, count: int) -> None:
        numbers = self.next("orders", count)
        path = self.folder / f"{numbers[0]}.jsonl"
        path.write_text("".join(f"{json.dumps({'v': number})}\n" for number in numbers))
        done = frazil(self.folder, "load", "orders", str(path))
        assert done.returncode == 0, done.stderr

    def moved(self, served: Served) -> bool:
        """Returns whether all records are in their tables."""
        committed: dict[str, int] = {}
        for each in httpx.get(f"{served.url}/status", timeout=30).json()["topics"]:
            committed[each["topic"]] = committed.get(each["topic"], 0) + (each["committed_offset"] or 0)
        return committed == {topic: len(numbers) for topic, numbers in self.sent.items()}

    def in_tables(self) -> dict[str, list[int]]:
        from frazil.config.model import Config
        from frazil.lake.catalog.lake import Lake

        lake = Lake(Config(data_dir=self.folder / "data"))
        try:
            columns = {"logs": "body", "orders": "v"}
            found = {
                topic: lake.load(("frazil", topic)).scan(selected_fields=(column,)).to_arrow()[column].to_pylist()
                for topic, column in columns.items()
            }
        finally:
            lake.close()
        return {topic: sorted(map(int, values)) for topic, values in found.items()}


def until(served: Served, reached: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SOON
    while not reached():
        assert time.monotonic() < deadline, httpx.get(f"{served.url}/health").text
        time.sleep(0.2)


def catalog(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{served.url}/health", timeout=30).json()["components"].get("catalog", {})
    return found


@pytest.mark.xdist_group("own-jvm")
def test_it_goes_on_with_every_row_once_after_the_printed_command(tmp_path: Path) -> None:
    place = FrazilFolder(tmp_path)
    with serving(tmp_path, place.settings, pipeline=True) as served:
        place.log_over_http(20)
        place.load(30)
        until(served, lambda: place.moved(served))
        # Some of these are moved before the end, and some are not.
        place.log_over_http(5)
        place.load(7)
        served.end(signal.SIGKILL)
    for path in (tmp_path / "data").glob("catalog.db*"):
        path.unlink()

    with serving(tmp_path, place.settings, pipeline=True) as served:
        until(served, lambda: catalog(served).get("status") == "unhealthy")
        result = catalog(served)["reason"]
        place.log_over_http(5)
        code, _ = served.end(signal.SIGTERM)
        assert code == 130
    assert "is empty and does not know tables" in result
    (command,) = re.findall(r"`(frazil [^`]+)`", result)

    done = subprocess.run(
        command,
        shell=True,
        cwd=tmp_path,
        env=environment(PATH=f"{FRAZIL.parent}{os.pathsep}{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"frazil\.logs +logs +registered", done.stdout), done.stdout
    assert re.search(r"frazil\.orders +orders +registered", done.stdout), done.stdout

    with serving(tmp_path, place.settings, pipeline=True) as served:
        place.log_over_http(5)
        place.load(3)
        until(served, lambda: place.moved(served))
        asked = httpx.post(f"{served.url}/sql", content="SELECT v FROM orders ORDER BY v", timeout=60).json()
        assert [row["v"] for row in asked] == place.sent["orders"]
        health = httpx.get(f"{served.url}/health", timeout=30).json()
        assert health["status"] == "healthy", health
        served.end(signal.SIGTERM)
    assert place.in_tables() == place.sent
