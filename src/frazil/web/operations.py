"""Builds the operations endpoint as a Starlette application: health, readiness, metrics, and the endpoints of other
parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from frazil.ops.health import HealthRegistry
from frazil.ops.metrics import render
from frazil.version import __version__


@dataclass(frozen=True)
class Endpoint:
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    summary: str
    methods: Sequence[str] = ("GET",)


def create_app(health: HealthRegistry, metrics: CollectorRegistry, endpoints: Sequence[Endpoint] = ()) -> Starlette:
    """Returns the application. `endpoints` are added to those of operations, and listed at `/` with them."""
    everything = [*_operations(health, metrics), *endpoints]
    index = _index(everything)

    async def show_index(request: Request) -> Response:
        return PlainTextResponse(index)

    routes = [Route(each.path, each.handler, methods=list(each.methods)) for each in everything]
    return Starlette(routes=[Route("/", show_index), *routes])


def _operations(health: HealthRegistry, metrics: CollectorRegistry) -> list[Endpoint]:
    async def report(request: Request) -> Response:
        report = health.report()
        return JSONResponse(report.as_data(), 503 if report.status == "unhealthy" else 200)

    async def alive(request: Request) -> Response:
        report = health.report()
        if report.status == "unhealthy":
            return PlainTextResponse(f"{report.reason}\n", 503)
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        reason = health.not_ready()
        return PlainTextResponse("ready\n") if reason is None else PlainTextResponse(f"{reason}\n", 503)

    async def measurements(request: Request) -> Response:
        body, content_type = render(metrics, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    return [
        Endpoint("/health", report, "health by component, as JSON"),
        Endpoint("/healthz", alive, "200, or 503 with the reason when unhealthy"),
        Endpoint("/readyz", ready, "200 when records are taken and reads answered, else 503 with the reason"),
        Endpoint("/metrics", measurements, "metrics for Prometheus"),
    ]


def _index(endpoints: Sequence[Endpoint]) -> str:
    asked = [each.path if each.methods == ("GET",) else f"{'/'.join(each.methods)} {each.path}" for each in endpoints]
    width = max(map(len, asked))
    lines = [f"  {how:<{width}}  {each.summary}" for how, each in zip(asked, endpoints, strict=True)]
    return "\n".join([f"Frazil {__version__}", "", *lines, ""])
