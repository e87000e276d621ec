from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge
from starlette.applications import Starlette
from starlette.types import ASGIApp

from frazil.app.status import status_endpoint
from frazil.config.model import Config
from frazil.ops.health import Health, HealthRegistry
from frazil.ops.metrics import create_registry
from frazil.web.ports.operations import create_app
from frazil.web.server import HttpServer
from tests.cli.support import FRAZIL, environment, frazil, serving
from tests.ops.support import run


def ask(folder: Path, app: ASGIApp, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `frazil status` against a server in this process."""

    async def scenario() -> subprocess.CompletedProcess[str]:
        server = HttpServer(app, "127.0.0.1", 0)
        await server.start()
        try:
            return await asyncio.to_thread(frazil, folder, "status", "--url", server.url, *arguments)
        finally:
            await server.stop()

    return run(scenario())


def app_of(health: HealthRegistry, metrics: CollectorRegistry | None = None) -> ASGIApp:
    metrics = metrics or create_registry()
    return create_app(health, metrics, [status_endpoint(Config(), health, metrics)])


@pytest.fixture
def health() -> HealthRegistry:
    registry = HealthRegistry()
    registry.set("doors", "healthy")
    return registry


def test_a_running_frazil_is_healthy(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        result = frazil(tmp_path, "status", FRAZIL__SERVER__PORT=served.url.rpartition(":")[2])
    assert result.returncode == 0
    assert result.stdout.startswith(f"{served.url} is healthy (Frazil ")


def test_degraded_is_told_but_no_failure(tmp_path: Path, health: HealthRegistry) -> None:
    health.set("log", "degraded", "the store is slow")
    result = ask(tmp_path, app_of(health))
    assert result.returncode == 0
    assert [line.split(maxsplit=2) for line in result.stdout.splitlines()[1:]] == [
        ["component", "status", "reason"],
        ["doors", "healthy"],
        ["log", "degraded", "the store is slow"],
    ]


def test_unhealthy_fails_with_the_reason(tmp_path: Path, health: HealthRegistry) -> None:
    health.set("log", "unhealthy", "the disk is gone [sda]")
    result = ask(tmp_path, app_of(health), "--output", "json")
    assert result.returncode == 6
    assert json.loads(result.stdout)["components"]["log"]["reason"] == "the disk is gone [sda]"
    assert result.stderr.endswith(" is unhealthy: log (the disk is gone [sda])\n")


def numbers() -> CollectorRegistry:
    registry = CollectorRegistry()
    partition = ("topic", "partition")
    for name, value in (("frazil_log_next_offset", 1500), ("frazil_log_tail_records", 500)):
        Gauge(name, "x", partition, registry=registry).labels("orders", "0").set(value)
    Gauge("frazil_freshness_seconds", "x", ("topic",), registry=registry).labels("orders").set(3.25)
    return registry


def test_people_see_components_and_topics(tmp_path: Path, health: HealthRegistry) -> None:
    tables = Health.of({"frazil.orders": "somebody rolled it back", "frazil.other": "dropped"})
    health.register("iceberg", lambda: tables)
    result = ask(tmp_path, app_of(health, numbers()))
    assert result.returncode == 0
    assert [re.split(r" {2,}", line) for line in result.stdout.splitlines()[1:]] == [
        ["component", "status", "reason"],
        ["doors", "healthy"],
        ["iceberg", "degraded", "frazil.orders: somebody rolled it back"],
        ["", "frazil.other: dropped"],
        [""],
        ["topic", "partitions", "unsealed", "log end", "behind", "problem"],
        ["orders", "1", "500", "1,500", "3.2 s", "iceberg"],
    ]


def test_it_can_be_watched_until_it_is_interrupted(tmp_path: Path, health: HealthRegistry) -> None:
    async def scenario() -> None:
        server = HttpServer(app_of(health, numbers()), "127.0.0.1", 0)
        await server.start()
        watching = await asyncio.create_subprocess_exec(
            *(str(FRAZIL), "status", "--url", server.url, "--watch", "--interval", "0.1", "--output", "json"),
            env=environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert watching.stdout is not None
        try:
            for _ in range(3):
                assert json.loads(await watching.stdout.readline())["topics"][0]["log_end"] == 1500
            await server.stop()
            while (look := json.loads(await watching.stdout.readline()))["status"] != "unreachable":
                assert look["status"] == "healthy"
            assert "no Frazil answers" in look["reason"]
            watching.send_signal(signal.SIGINT)
            _, errors = await watching.communicate()
            assert (watching.returncode, errors) == (130, b"frazil: interrupted\n")
        finally:
            if watching.returncode is None:
                watching.kill()
                await watching.wait()

    run(scenario())


def test_nobody_there(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        result = frazil(tmp_path, "status", "--url", f"127.0.0.1:{port}/")
    assert result.returncode == 6
    assert result.stderr.startswith(f"frazil: no Frazil answers at http://127.0.0.1:{port}: ")


def test_somebody_else_there(tmp_path: Path) -> None:
    result = ask(tmp_path, Starlette())
    assert result.returncode == 6
    assert result.stderr.endswith(" is not Frazil\n")


@pytest.mark.parametrize("url", ["file:///etc/hosts", "http://", "http://a:b"])
def test_what_is_no_address_is_refused(tmp_path: Path, url: str) -> None:
    result = frazil(tmp_path, "status", "--url", url)
    assert result.returncode == 1
    assert "is not an address" in result.stderr


def test_an_unknown_port_needs_an_address(tmp_path: Path) -> None:
    result = frazil(tmp_path, "status", FRAZIL__SERVER__PORT="0")
    assert result.returncode == 1
    assert "--url" in result.stderr
