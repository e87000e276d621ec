from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import httpx
import pytest

from frazil.cli.commands import COMMANDS
from frazil.store.local import LocalStore
from tests.cli.support import frazil, serving
from tests.log.support import TOPIC, Machine, crash, cut_zeros, newest_wal, rows, writer


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
        result = frazil(tmp_path, "serve", FRAZIL__SERVER__PORT=port)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"frazil: cannot listen on 127.0.0.1:{port}: the port is in use")
    assert "FRAZIL__SERVER__PORT" in result.stderr


def test_a_port_that_another_program_has_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = frazil(tmp_path, "serve", FRAZIL__SERVER__PORT=port)
    assert result.returncode == 1
    assert "the port is in use" in result.stderr


def test_a_bad_configuration_keeps_it_from_starting(tmp_path: Path) -> None:
    result = frazil(tmp_path, "serve", FRAZIL__SERVER__PORT="http")
    assert result.returncode == 1
    assert result.stderr.startswith(
        "frazil: server.port: 'http' is not allowed; allowed: whole number from 0 to 65535"
    )


def test_files_are_loaded_beside_it_and_can_be_seen(tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("".join(f'{{"id": {i}, "item": "ice {i}"}}\n' for i in range(1000)))
    with serving(tmp_path):
        loaded = frazil(tmp_path, "load", "orders", "orders.jsonl", "--output", "json")
        assert loaded.returncode == 0, loaded.stderr
        assert json.loads(loaded.stdout)["rows"] == 1000
        listed = json.loads(frazil(tmp_path, "topics", "list", "--output", "json").stdout)
        assert "orders" in json.dumps(listed)
        assert frazil(tmp_path, "log", "verify").returncode == 0


def test_the_folder_it_is_started_in_is_not_searched_for_modules(tmp_path: Path) -> None:
    for module in ("json", "queue", "pyarrow"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('a module of somebody else')")
    (tmp_path / "orders.jsonl").write_text('{"id": 1}\n')
    with serving(tmp_path) as served:
        assert frazil(tmp_path, "load", "orders", "orders.jsonl").returncode == 0
        answer = httpx.post(f"{served.url}/sql", content="SELECT count(*) AS n FROM orders", timeout=60)
    assert answer.status_code == 200, answer.text
    assert '"n":1' in answer.text.replace(" ", "")


def test_a_damaged_wal_keeps_it_from_starting_with_exit_code_5(tmp_path: Path) -> None:
    left = writer(LocalStore(tmp_path / "data" / "store"), tmp_path / "data", Machine.real())
    left.append(rows(0, 10))
    left.append(rows(10, 10))
    crash(left)
    path = cut_zeros(newest_wal(tmp_path / "data"))
    data = bytearray(path.read_bytes())
    data[-600] ^= 1
    path.write_bytes(data)
    result = frazil(tmp_path, "serve", FRAZIL__SERVER__PORT="0")
    assert result.returncode == 5
    assert path.name in result.stderr
    assert "byte" in result.stderr
    repaired = frazil(tmp_path, "log", "repair", f"{TOPIC}/0", "--yes")
    assert repaired.returncode == 0, repaired.stderr
    with serving(tmp_path) as served:
        assert httpx.get(f"{served.url}/readyz").status_code == 200
