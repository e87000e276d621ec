from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp

from frazil.ops.health import HealthRegistry
from frazil.ops.http import create_app
from frazil.ops.metrics import create_registry
from frazil.ops.server import HttpServer
from tests.cli.support import frazil, serving
from tests.ops.support import run


def ask(folder: Path, app: ASGIApp, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`frazil status` of a server that runs here."""

    async def scenario() -> subprocess.CompletedProcess[str]:
        server = HttpServer(app, "127.0.0.1", 0)
        await server.start()
        try:
            return await asyncio.to_thread(frazil, folder, "status", "--url", server.url, *arguments)
        finally:
            await server.stop()

    return run(scenario())


@pytest.fixture
def health() -> HealthRegistry:
    registry = HealthRegistry()
    registry.set("doors", "healthy")
    return registry


def test_a_running_frazil_is_healthy(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        told = frazil(tmp_path, "status", FRAZIL__SERVER__PORT=served.url.rpartition(":")[2])
    assert told.returncode == 0
    assert told.stdout.startswith(f"{served.url} is healthy (Frazil ")


def test_degraded_is_told_but_no_failure(tmp_path: Path, health: HealthRegistry) -> None:
    health.set("log", "degraded", "the store is slow")
    told = ask(tmp_path, create_app(health, create_registry()))
    assert told.returncode == 0
    assert [line.split(maxsplit=2) for line in told.stdout.splitlines()[1:]] == [
        ["component", "status", "reason"],
        ["doors", "healthy"],
        ["log", "degraded", "the store is slow"],
    ]


def test_unhealthy_fails_with_the_reason(tmp_path: Path, health: HealthRegistry) -> None:
    health.set("log", "unhealthy", "the disk is gone [sda]")
    told = ask(tmp_path, create_app(health, create_registry()), "--output", "json")
    assert told.returncode == 6
    assert json.loads(told.stdout)["components"]["log"]["reason"] == "the disk is gone [sda]"
    assert told.stderr.endswith(" is unhealthy: log (the disk is gone [sda])\n")


def test_nobody_there(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        told = frazil(tmp_path, "status", "--url", f"127.0.0.1:{port}/")
    assert told.returncode == 6
    assert told.stderr.startswith(f"frazil: no Frazil answers at http://127.0.0.1:{port}: ")


def test_somebody_else_there(tmp_path: Path) -> None:
    told = ask(tmp_path, Starlette())
    assert told.returncode == 6
    assert told.stderr.endswith(" is not Frazil\n")


@pytest.mark.parametrize("url", ["file:///etc/hosts", "http://", "http://a:b"])
def test_what_is_no_address_is_refused(tmp_path: Path, url: str) -> None:
    told = frazil(tmp_path, "status", "--url", url)
    assert told.returncode == 1
    assert "is not an address" in told.stderr


def test_an_unknown_port_needs_an_address(tmp_path: Path) -> None:
    told = frazil(tmp_path, "status", FRAZIL__SERVER__PORT="0")
    assert told.returncode == 1
    assert "--url" in told.stderr
