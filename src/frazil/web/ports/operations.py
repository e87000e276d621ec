"""Has the endpoints by which a process is watched: health, readiness and metrics, at its own port and at others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from frazil.ops.health import HealthRegistry
from frazil.ops.metrics import render
from frazil.version import __version__
from frazil.web.ports.contributions import (
    LOKI,
    OPERATIONS,
    OTLP,
    PROMETHEUS,
    TEMPO,
    Contribution,
    Endpoint,
    Handler,
)
from frazil.web.ports.port_app import PortApp
from frazil.web.ports.request_metrics import request_metrics

_PROBES = ("GET", "HEAD")


def create_app(health: HealthRegistry, metrics: CollectorRegistry, endpoints: Sequence[Contribution] = ()) -> PortApp:
    """Returns the application of the port `operations`. All its endpoints are listed at `/`."""
    everything = [*_operations(health, metrics), *endpoints]
    index = _index(everything)

    async def show_index(_: Request) -> Response:
        return PlainTextResponse(index)

    return PortApp(OPERATIONS, [Endpoint("/", show_index, "this list"), *everything], request_metrics(metrics))


def probes_of(port: str, health: HealthRegistry, metrics: CollectorRegistry) -> list[Endpoint]:
    """Returns the endpoints at which clients of an API ask whether it runs. They open no port by themselves."""
    ready = _ready(health)
    paths: dict[str, list[tuple[str, Handler]]] = {
        OTLP: [("/health", _running)],
        LOKI: [("/ready", ready)],
        PROMETHEUS: [("/-/ready", ready), ("/-/healthy", _running)],
        TEMPO: [("/ready", ready)],
    }
    watched: list[tuple[str, Handler]] = [] if port == OTLP else [("/metrics", _measurements(metrics))]
    return [
        Endpoint(path, handler, "whether it runs, or its metrics", _PROBES, port)
        for path, handler in [*paths.get(port, ()), *watched]
    ]


def _operations(health: HealthRegistry, metrics: CollectorRegistry) -> list[Endpoint]:
    async def report(_: Request) -> Response:
        report = health.report()
        return JSONResponse(report.as_data(), 503 if report.status == "unhealthy" else 200)

    return [
        Endpoint("/health", report, "health by component, as JSON"),
        Endpoint("/healthz", _alive(health), "200, or 503 with the reason when unhealthy"),
        Endpoint("/readyz", _ready(health), "200 when records are taken and reads answered, else 503"),
        Endpoint("/metrics", _measurements(metrics), "metrics for Prometheus"),
    ]


def _alive(health: HealthRegistry) -> Handler:
    async def alive(_: Request) -> Response:
        report = health.report()
        if report.status == "unhealthy":
            return PlainTextResponse(f"{report.reason}\n", 503)
        return PlainTextResponse("ok\n")

    return alive


def _ready(health: HealthRegistry) -> Handler:
    async def ready(_: Request) -> Response:
        reason = health.not_ready()
        return PlainTextResponse("ready\n") if reason is None else PlainTextResponse(f"{reason}\n", 503)

    return ready


async def _running(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def _measurements(metrics: CollectorRegistry) -> Handler:
    async def measurements(request: Request) -> Response:
        body, content_type = render(metrics, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    return measurements


def _index(endpoints: Iterable[Contribution]) -> str:
    asked = {
        each.path if tuple(each.methods) == ("GET",) else f"{'/'.join(each.methods)} {each.path}": each.summary
        for each in endpoints
    }
    width = max(map(len, asked))
    lines = [f"  {how:<{width}}  {summary}" for how, summary in asked.items()]
    return "\n".join([f"Frazil {__version__}", "", *lines, ""])
