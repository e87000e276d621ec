"""Defines what a part of the process contributes to a named port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from frazil.errors import FrazilError

OPERATIONS, OTLP, LOKI, PROMETHEUS, TEMPO = "operations", "otlp", "loki", "prometheus", "tempo"

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Endpoint:
    """Answers requests to one path. Its requests are counted, and its errors are shown as the port's dialect does."""

    path: str
    """With names in braces, as in `/topics/{name}`; `{key:path}` matches slashes too."""
    handler: Handler
    summary: str
    methods: Sequence[str] = ("GET",)
    port: str = OPERATIONS


@dataclass(frozen=True)
class BareEndpoint:
    """Answers requests to one path without any help, for requests so small that a framework would take longer.

    It counts its requests and shows its errors by itself. A method `WEBSOCKET` stands for WebSocket connections.
    """

    path: str
    """It has no names in braces."""
    app: ASGIApp
    summary: str
    methods: Sequence[str] = ("POST",)
    port: str = OPERATIONS
    on_stop: Callable[[], None] | None = None
    """Is called before the port closes, so that answers without an end come to one."""


Contribution = Endpoint | BareEndpoint


def check_contributions(contributions: Iterable[Contribution]) -> None:
    """Raises an error if two contributions are for the same path and method of a port."""
    seen: set[tuple[str, str, str]] = set()
    for each in contributions:
        if isinstance(each, BareEndpoint) and "{" in each.path:
            raise FrazilError(f"port {each.port}: {each.path} has names in it, which only other endpoints may have.")
        for method in each.methods:
            place = (each.port, each.path, method)
            if place in seen:
                raise FrazilError(f"port {each.port}: {method} {each.path} is contributed twice.")
            seen.add(place)
