"""Tests the real command `frazil logs`."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import httpx

from tests.cli.support import FRAZIL, environment, frazil, serving
from tests.servers.child import free_ports


def test_lines_are_printed_and_followed(tmp_path: Path) -> None:
    settings = {"FRAZIL__LOKI__ENABLED": "true", "FRAZIL__LOKI__PORT": str(free_ports(1)[0])}
    url = f"http://127.0.0.1:{settings['FRAZIL__LOKI__PORT']}"
    with serving(tmp_path, settings):
        _push(url, "order 1 is late", "order 2 is \x1b[31mred")
        done = frazil(tmp_path, "logs", '{app="shop"} |= "order"', **settings)
        assert done.returncode == 0, done.stderr
        assert [line.split("  ")[-1] for line in done.stdout.splitlines()] == [
            "order 1 is late",
            "order 2 is \\u001b[31mred",
        ]
        done = frazil(tmp_path, "logs", '{app="shop"}', "--limit", "1", "--output", "json", "--url", url)
        shown = json.loads(done.stdout)
        assert (shown["line"], shown["labels"]["app"]) == ("order 2 is \x1b[31mred", "shop")
        done = frazil(tmp_path, "logs", 'sum by (app) (count_over_time({app="shop"}[1h]))', **settings)
        assert done.stdout.split() == ["2", '{app="shop"}']
        done = frazil(tmp_path, "logs", "{app=", **settings)
        assert (done.returncode, "parse error at line 1, col 6" in done.stderr) == (1, True)
        assert _followed(tmp_path, url, settings) == ["order 2 is \x1b[31mred", "order 3 has come"]
    done = frazil(tmp_path, "logs", '{app="shop"}', **settings)
    assert "no Loki API answers" in done.stderr


def _push(url: str, *lines: str) -> None:
    now = time.time_ns()
    values = [[str(now + number), line] for number, line in enumerate(lines)]
    streams = {"streams": [{"stream": {"app": "shop"}, "values": values}]}
    assert httpx.post(f"{url}/loki/api/v1/push", json=streams).status_code == 204


def _followed(folder: Path, url: str, settings: dict[str, str]) -> list[str]:
    """Returns the two lines that somebody sees who follows."""
    command: list[str | Path] = [FRAZIL, "logs", '{app="shop"}', "--follow", "--limit", "1", "--output", "raw"]
    with subprocess.Popen(
        command, cwd=folder, env=environment(**settings), stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        _push(url, "order 3 has come")
        second = following.stdout.readline()
        following.terminate()
    return [first.rstrip("\n"), second.rstrip("\n")]
