from __future__ import annotations

import httpx
import pytest
from prometheus_client import Counter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from frazil.ops.health import HealthRegistry
from frazil.ops.metrics import create_registry
from frazil.version import __version__
from frazil.web.ports.contributions import Endpoint
from frazil.web.ports.operations import create_app
from tests.ops.support import run


@pytest.fixture
def health() -> HealthRegistry:
    return HealthRegistry()


@pytest.fixture
def app(health: HealthRegistry) -> ASGIApp:
    async def extra(request: Request) -> Response:
        return PlainTextResponse("extra")

    registry = create_registry()
    Counter("frazil_appends", "Appends.", registry=registry).inc(3)
    return create_app(health, registry, [Endpoint("/extra", extra, "something more")])


def get(app: ASGIApp, path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://frazil") as client:
            return await client.get(path, headers=headers)

    return run(ask())


def test_health_is_503_only_when_unhealthy(app: ASGIApp, health: HealthRegistry) -> None:
    health.set("log", "degraded", "slow")
    answer = get(app, "/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert (get(app, "/healthz").status_code, get(app, "/healthz").text) == (200, "ok\n")
    health.set("log", "unhealthy", "the disk is gone")
    assert (get(app, "/health").status_code, get(app, "/health").json()["status"]) == (503, "unhealthy")
    answer = get(app, "/healthz")
    assert (answer.status_code, answer.text) == (503, "log is unhealthy: the disk is gone\n")


def test_readiness_follows_the_life_of_the_process(app: ASGIApp, health: HealthRegistry) -> None:
    assert (get(app, "/readyz").status_code, get(app, "/readyz").text) == (503, "starting\n")
    health.mark_ready()
    assert (get(app, "/readyz").status_code, get(app, "/readyz").text) == (200, "ready\n")
    health.set("log", "unhealthy", "broken")
    assert get(app, "/readyz").status_code == 503
    health.mark_draining()
    assert get(app, "/readyz").text == "draining\n"


def test_metrics_in_both_formats(app: ASGIApp) -> None:
    plain = get(app, "/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert 'frazil_build_info{python="' in plain.text
    assert f'version="{__version__}"' in plain.text
    assert "frazil_appends_total 3.0" in plain.text
    assert "process_cpu_seconds_total" in plain.text
    openmetrics = get(app, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")


def test_the_index_lists_every_endpoint(app: ASGIApp) -> None:
    index = get(app, "/").text
    for path in ("/health", "/healthz", "/readyz", "/metrics", "/extra"):
        assert path in index
    assert "something more" in index
    assert get(app, "/extra").text == "extra"
    assert get(app, "/nothing").status_code == 404
