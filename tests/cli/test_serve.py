from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import httpx
import pytest

from frazil.cli.commands import COMMANDS
from tests.cli.support import frazil, serving


def test_it_tells_where_it_listens_and_answers_there(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert f"data        {tmp_path / 'data'}" in served.banner
        assert f"curl {served.url}/health" in served.banner
        known = {command.name for command in COMMANDS}
        for line in served.banner.splitlines():
            if line.startswith("  frazil "):
                assert line.split()[1] in known
        assert httpx.get(f"{served.url}/health").json()["status"] == "healthy"
        assert httpx.get(f"{served.url}/healthz").status_code == 200
        assert httpx.get(f"{served.url}/readyz").status_code == 200
        assert "frazil_build_info" in httpx.get(f"{served.url}/metrics").text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as served, httpx.Client() as client:
        client.get(f"{served.url}/health")
        code, errors = served.end(number)
    assert code == 130
    *logged, sentence = errors.splitlines()
    assert sentence == f"frazil: stopped by {number.name}"
    assert [json.loads(line)["level"] for line in logged] == ["info"] * len(logged)


def test_a_port_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        port = served.url.rpartition(":")[2]
        told = frazil(tmp_path, "serve", FRAZIL__SERVER__PORT=port)
    assert told.returncode == 1
    assert told.stdout == ""
    assert told.stderr.startswith(f"frazil: cannot listen on 127.0.0.1:{port}: the port is in use")
    assert "FRAZIL__SERVER__PORT" in told.stderr


def test_a_port_that_another_program_has_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        told = frazil(tmp_path, "serve", FRAZIL__SERVER__PORT=port)
    assert told.returncode == 1
    assert "the port is in use" in told.stderr


def test_a_bad_configuration_keeps_it_from_starting(tmp_path: Path) -> None:
    told = frazil(tmp_path, "serve", FRAZIL__SERVER__PORT="http")
    assert told.returncode == 1
    assert told.stderr.startswith("frazil: server.port: 'http' is not allowed; allowed: whole number from 0 to 65535")
